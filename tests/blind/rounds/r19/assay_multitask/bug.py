"""Multi-task activity prediction over a panel of assays with missing labels."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Settings:
    n_compounds: int = 4000
    n_bits: int = 256
    n_tasks: int = 8
    hidden: int = 128
    dropout: float = 0.2
    batch_size: int = 64
    epochs: int = 10
    lr: float = 1e-3
    seed: int = 4


class AssayPanel(Dataset):
    def __init__(self, bits, labels):
        self.bits = torch.as_tensor(bits, dtype=torch.float32)
        self.labels = torch.as_tensor(labels, dtype=torch.float32)

    def __len__(self):
        return len(self.bits)

    def __getitem__(self, i):
        return self.bits[i], self.labels[i]


def make_panel(s):
    """Fingerprints and activities (-1 where a compound was not measured)."""
    rng = np.random.default_rng(s.seed)
    groups = rng.random((s.n_compounds, 24)) < 0.3
    loading = (rng.random((24, s.n_bits)) < 0.12).astype(float)
    bits = (groups @ loading + 0.4 * rng.random((s.n_compounds, s.n_bits)) > 0.95).astype(np.float32)
    weights = rng.normal(0, 1.2, (24, s.n_tasks))
    logits = (groups - 0.3) @ weights + 1.5 * (groups[:, :8] & groups[:, 8:16]) - 0.6
    active = (rng.random(logits.shape) < 1 / (1 + np.exp(-2 * logits))).astype(np.float32)
    active[rng.random(active.shape) < 0.25] = -1
    return bits, active


class PanelNet(nn.Module):
    def __init__(self, n_bits, hidden, n_tasks, dropout):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(n_bits, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(dropout),
        )
        self.heads = nn.ModuleList([nn.Linear(hidden, 1)] * n_tasks)

    def forward(self, x):
        z = self.trunk(x)
        return torch.cat([head(z) for head in self.heads], dim=1)


def masked_bce(logits, labels):
    mask = labels >= 0
    loss = nn.functional.binary_cross_entropy_with_logits(logits, labels.clamp(min=0), reduction="none")
    return (loss * mask).sum() / mask.sum()


def auc(score, label):
    order = np.argsort(score, kind="stable")
    rank = np.empty(len(score))
    rank[order] = np.arange(1, len(score) + 1)
    n1 = label.sum()
    return (rank[label == 1].sum() - n1 * (n1 + 1) / 2) / (n1 * (len(label) - n1))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    scores = torch.cat([model(x) for x, _ in loader]).numpy()
    labels = torch.cat([y for _, y in loader]).numpy()
    out = []
    for t in range(labels.shape[1]):
        seen = labels[:, t] >= 0
        out.append(auc(scores[seen, t], labels[seen, t]))
    return np.array(out)


def run(s):
    torch.manual_seed(s.seed)
    bits, labels = make_panel(s)
    cut = int(0.8 * len(bits))
    train = DataLoader(AssayPanel(bits[:cut], labels[:cut]), batch_size=s.batch_size, shuffle=True, drop_last=True)
    valid = DataLoader(AssayPanel(bits[cut:], labels[cut:]), batch_size=400)
    model = PanelNet(s.n_bits, s.hidden, s.n_tasks, s.dropout)
    opt = torch.optim.AdamW(model.parameters(), lr=s.lr, weight_decay=1e-3)
    for epoch in range(s.epochs):
        model.train()
        losses = []
        for x, y in train:
            loss = masked_bce(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        aucs = evaluate(model, valid)
        print(f"epoch {epoch:2d} loss {np.mean(losses):.4f} mean AUC {aucs.mean():.4f}", flush=True)
    for t, a in enumerate(evaluate(model, valid)):
        print(f"  assay_{t}: AUC {a:.4f}")
    print(f"mean validation AUC {evaluate(model, valid).mean():.4f}")


if __name__ == "__main__":
    run(Settings())
