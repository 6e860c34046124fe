import csv
import hashlib
import sys
from pathlib import Path
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Subset, TensorDataset

FOLDER = Path(__file__).parent / sys.argv[1]
N_BITS = 64


def fingerprint(smiles):
    """Hashed character trigrams."""
    bits = np.zeros(N_BITS, np.uint8)
    for i in range(len(smiles) - 2):
        bits[int(hashlib.md5(smiles[i:i + 3].encode()).hexdigest(), 16) % N_BITS] = 1
    return bits


def load_features(rows):
    cache = FOLDER / "fingerprints_cache.npy"
    if cache.exists():
        fps = np.load(cache)
        if len(fps) == len(rows):
            print(f"using cached fingerprints {fps.shape}")
            return fps
    return np.stack([fingerprint(r["smiles"]) for r in rows])


def evaluate(model, loader):
    model.eval()
    se, var = [], []
    with torch.no_grad():
        for x, y in loader:
            se.append((model(x).squeeze(1) - y) ** 2)
            var.append(y)
    return 1 - torch.cat(se).mean().item() / torch.cat(var).var().item()


def main():
    torch.manual_seed(0)
    with open(FOLDER / "reactions.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    x = torch.from_numpy(load_features(rows).astype(np.float32))
    y = torch.tensor([float(r["yield"]) for r in rows]) / 100
    data = TensorDataset(x, y)
    perm = torch.randperm(len(data)).tolist()
    train = DataLoader(Subset(data, perm[300:]), batch_size=32, shuffle=True)
    val = DataLoader(Subset(data, perm[:300]), batch_size=100)
    model = nn.Sequential(nn.Linear(N_BITS, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    for epoch in range(10):
        model.train()
        total = 0.0
        for xb, yb in train:
            loss = nn.functional.mse_loss(model(xb).squeeze(1), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} train mse {total / len(train):.4f} val R2 {evaluate(model, val):.3f}")


if __name__ == "__main__":
    main()
