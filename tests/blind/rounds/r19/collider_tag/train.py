"""Signal/background classifier on high-level jet variables."""
import os
import sys
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Sample(NamedTuple):
    x: np.ndarray
    y: np.ndarray


def read(folder: str, part: str) -> Sample:
    return Sample(np.load(os.path.join(folder, f"{part}_x.npy")),
                  np.load(os.path.join(folder, f"{part}_y.npy")).astype(np.float32))


class Standardize(nn.Module):
    def __init__(self, x: np.ndarray):
        super().__init__()
        self.register_buffer("mean", torch.from_numpy(x.mean(0)))
        self.register_buffer("std", torch.from_numpy(x.std(0)))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.std


def build_model(x: np.ndarray, hidden: int = 80) -> nn.Module:
    return nn.Sequential(
        Standardize(x),
        nn.Linear(x.shape[1], hidden), nn.SiLU(),
        nn.Linear(hidden, hidden), nn.SiLU(),
        nn.Linear(hidden, 1), nn.Flatten(0),
    )


def roc_auc(score: np.ndarray, y: np.ndarray) -> float:
    rank = np.empty(len(score))
    rank[np.argsort(score, kind="stable")] = np.arange(1, len(score) + 1)
    n1 = y.sum()
    return float((rank[y == 1].sum() - n1 * (n1 + 1) / 2) / (n1 * (len(y) - n1)))


@torch.no_grad()
def validate(model: nn.Module, s: Sample):
    model.eval()
    out = model(torch.from_numpy(s.x))
    y = torch.from_numpy(s.y)
    loss = nn.functional.binary_cross_entropy_with_logits(out, y).item()
    return loss, roc_auc(out.numpy(), s.y), ((out > 0).float() == y).float().mean().item()


def main() -> None:
    folder = sys.argv[1]
    torch.manual_seed(42)
    train, valid = read(folder, "train"), read(folder, "valid")
    print(f"train {train.x.shape}, valid {valid.x.shape}")
    loader = DataLoader(TensorDataset(torch.from_numpy(train.x), torch.from_numpy(train.y)),
                        batch_size=256, shuffle=True)
    model = build_model(train.x)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    epochs = 12
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=epochs)
    for epoch in range(epochs):
        model.train()
        tot = 0.0
        for x, y in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(y)
        sched.step()
        vloss, auc, acc = validate(model, valid)
        print(f"epoch {epoch:2d}  train {tot / len(train.y):.4f}  valid {vloss:.4f}  auc {auc:.4f}  acc {acc:.4f}",
              flush=True)
    vloss, auc, acc = validate(model, valid)
    print(f"valid auc {auc:.4f} acc {acc:.4f}")


if __name__ == "__main__":
    main()
