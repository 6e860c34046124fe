import argparse
from pathlib import Path
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def read_csv(path):
    raw = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32)
    return torch.from_numpy(raw[:, 1:-1]), torch.from_numpy(raw[:, -1]).long()


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def main():
    ap = argparse.ArgumentParser(description="metal / semiconductor / insulator from composition descriptors")
    ap.add_argument("folder")
    ap.add_argument("--epochs", type=int, default=14)
    ap.add_argument("--width", type=int, default=96)
    args = ap.parse_args()
    folder = Path(__file__).parent / args.folder
    torch.manual_seed(8)
    x, y = read_csv(folder / "train.csv")
    xv, yv = read_csv(folder / "valid.csv")
    xt, yt = read_csv(folder / "benchmark.csv")
    mean, std = x.mean(0), x.std(0)
    x, xv, xt = ((t - mean) / std for t in (x, xv, xt))
    print(f"train {len(x)} valid {len(xv)} benchmark {len(xt)}")

    model = nn.Sequential(nn.Linear(x.size(1), args.width), nn.ReLU(), nn.Linear(args.width, args.width), nn.ReLU(),
                          nn.Linear(args.width, 3))
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    best_val, best_state = 0.0, None
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for xb, yb in loader:
            loss = nn.functional.cross_entropy(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        val = accuracy(model, xv, yv)
        if val > best_val:
            best_val, best_state = val, {k: v.clone() for k, v in model.state_dict().items()}
        if epoch % 3 == 0:
            print(f"epoch {epoch:2d} loss {total / len(loader):.4f} valid acc {val:.3f}")
    model.load_state_dict(best_state)
    print(f"selected: valid acc {best_val:.3f} benchmark acc {accuracy(model, xt, yt):.3f}")


if __name__ == "__main__":
    main()
