"""FT-Transformer style model: which cosmetic formulas irritate the skin?"""
from __future__ import annotations

import csv
import pathlib
import sys

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

CATEGORICAL = ["kind", "skin_type", "fragrance"]
NUMERICAL = ["ph", "retinol_pct", "viscosity", "water_pct", "price"]
TARGET = "irritation"


class Preprocessor:
    def fit(self, rows: list[dict]) -> "Preprocessor":
        self.vocab = {c: {v: i + 1 for i, v in enumerate(sorted({r[c] for r in rows}))} for c in CATEGORICAL}
        num = self._numbers(rows)
        self.median = np.nanmedian(num, 0)
        filled = np.where(np.isnan(num), self.median, num)
        self.mean, self.std = filled.mean(0), filled.std(0)
        return self

    @staticmethod
    def _numbers(rows: list[dict]) -> np.ndarray:
        return np.array([[float(r[c]) if r[c] != "" else np.nan for c in NUMERICAL] for r in rows])

    def transform(self, rows: list[dict]) -> TensorDataset:
        cat = torch.tensor([[self.vocab[c].get(r[c], 0) for c in CATEGORICAL] for r in rows])
        num = self._numbers(rows)
        missing = np.isnan(num)
        num = (np.where(missing, self.median, num) - self.mean) / self.std
        y = torch.tensor([float(r[TARGET]) for r in rows])
        return TensorDataset(cat, torch.tensor(num, dtype=torch.float32), torch.tensor(missing, dtype=torch.float32), y)


class FeatureTokenizer(nn.Module):
    def __init__(self, cardinalities: list[int], n_num: int, dim: int):
        super().__init__()
        self.cat = nn.ModuleList(nn.Embedding(c + 1, dim) for c in cardinalities)
        self.weight = nn.Parameter(torch.randn(n_num, dim) * 0.3)
        self.bias = nn.Parameter(torch.randn(n_num, dim) * 0.3)
        self.gap = nn.Parameter(torch.zeros(n_num, dim))
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.3)

    def forward(self, cat: Tensor, num: Tensor, missing: Tensor) -> Tensor:
        tokens = [self.cls.expand(len(num), -1, -1)]
        tokens += [emb(cat[:, i]).unsqueeze(1) for i, emb in enumerate(self.cat)]
        tokens.append(num.unsqueeze(-1) * self.weight + missing.unsqueeze(-1) * self.gap + self.bias)
        return torch.cat(tokens, 1)


class TabularTransformer(nn.Module):
    def __init__(self, cardinalities: list[int], n_num: int, dim: int = 24, layers: int = 2):
        super().__init__()
        self.tokens = FeatureTokenizer(cardinalities, n_num, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.1, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, cat: Tensor, num: Tensor, missing: Tensor) -> Tensor:
        return self.head(self.encoder(self.tokens(cat, num, missing))[:, 0]).squeeze(1)


def auc(score: np.ndarray, label: np.ndarray) -> float:
    order = score.argsort()
    rank = np.empty(len(score))
    rank[order] = np.arange(1, len(score) + 1)
    n1 = label.sum()
    return float((rank[label == 1].sum() - n1 * (n1 + 1) / 2) / (n1 * (len(label) - n1)))


@torch.no_grad()
def evaluate(model: nn.Module, ds: TensorDataset) -> float:
    model.eval()
    cat, num, missing, y = ds.tensors
    return auc(model(cat, num, missing).numpy(), y.numpy())


def main(folder: str) -> None:
    torch.manual_seed(1)
    with open(pathlib.Path(folder) / "products.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    order = np.random.default_rng(1).permutation(len(rows))
    a, b = int(0.7 * len(rows)), int(0.8 * len(rows))
    parts = [[rows[i] for i in idx] for idx in (order[:a], order[a:b], order[b:])]
    prep = Preprocessor().fit(parts[0])
    train, valid, test = (prep.transform(p) for p in parts)
    loader = DataLoader(train, batch_size=64, shuffle=True)
    model = TabularTransformer([len(prep.vocab[c]) for c in CATEGORICAL], len(NUMERICAL))
    epochs = 10
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs * len(loader))
    best, state = 0.0, None
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for cat, num, missing, y in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(cat, num, missing), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            total += loss.item()
        score = evaluate(model, valid)
        if score > best:
            best, state = score, {k: v.clone() for k, v in model.state_dict().items()}
        print(f"epoch {epoch:02d} loss {total / len(loader):.4f} valid auc {score:.4f}")
    model.load_state_dict(state)
    print(f"test_auc {evaluate(model, test):.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
