"""Autoencoder fitted on normal pump cycles; the reconstruction error is the alarm score."""
import os
import sys
import numpy as np
import torch
import torch.nn as nn


class AE(nn.Module):
    def __init__(self, n=40, z=8):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(n, 48), nn.Tanh(), nn.Linear(48, z))
        self.dec = nn.Sequential(nn.Linear(z, 48), nn.Tanh(), nn.Linear(48, n))

    def forward(self, x):
        return self.dec(self.enc(x))


def auc(score, y):
    r = np.argsort(np.argsort(score)) + 1
    p, n = y.sum(), (~y).sum()
    return float((r[y].sum() - p * (p + 1) / 2) / (p * n))


def main(folder):
    torch.manual_seed(21)
    x = torch.from_numpy(np.load(os.path.join(folder, "cycles.npz"))["x"])
    ids = torch.tensor([int(s) for s in open(os.path.join(folder, "normal_ids.txt"))])
    x = x[ids]
    cut = int(0.9 * len(x))
    model = AE()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(40):
        model.train()
        tot = 0.0
        for idx in torch.randperm(cut).split(64):
            loss = nn.functional.mse_loss(model(x[idx]), x[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(idx)
        model.eval()
        if epoch % 8 == 7:
            with torch.no_grad():
                v = nn.functional.mse_loss(model(x[cut:]), x[cut:]).item()
            print(f"epoch {epoch + 1} train {tot / cut:.5f} val {v:.5f}")
    z = np.load(os.path.join(folder, "eval.npz"))
    xe = torch.from_numpy(z["x"])
    with torch.no_grad():
        score = (model(xe) - xe).pow(2).mean(1).numpy()
    print("final alarm AUC", auc(score, z["fault"]))


if __name__ == "__main__":
    main(sys.argv[1])
