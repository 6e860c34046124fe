"""Cross-validated soil organic carbon prediction from laboratory spectra components."""
import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional as F

FEATURES = [f"pc{i:02d}" for i in range(24)] + ["clay", "ph", "depth", "elevation"]


def soil_samples(n=700, seed=21):
    rng = np.random.default_rng(seed)
    clay = rng.beta(2, 4, n) * 60
    ph = rng.normal(6.2, 0.9, n)
    depth = rng.uniform(0, 60, n)
    elev = rng.gamma(3, 120, n)
    pcs = rng.normal(0, 1, (n, 24)) * np.geomspace(3, 0.3, 24)
    pcs[:, 0] += 0.05 * clay
    soc = 2.2 * np.exp(-depth / 35) + 0.02 * clay - 0.15 * (ph - 6) + 0.25 * pcs[:, 1] + 0.12 * pcs[:, 3]
    soc = soc + rng.normal(0, 0.9, n)
    data = np.column_stack([pcs, clay, ph, depth, elev])
    return pd.DataFrame(data, columns=FEATURES).assign(soc=soc)


class SoilNet(nn.Module):
    def __init__(self, n_in, hidden=128):
        super().__init__()
        self.inp = nn.Linear(n_in, hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        h = F.relu(self.inp(x))
        h = h + F.relu(self.mid(h))
        return self.out(h)[:, 0]


def fit_fold(x, y, epochs=12, lr=1e-3):
    net = SoilNet(len(FEATURES))
    opt = torch.optim.Adam(net.parameters(), lr=lr)
    net.train()
    for _ in range(epochs):
        for idx in torch.randperm(len(x)).split(32):
            loss = F.mse_loss(net(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return net


def standardize(frame, reference):
    mu, sd = reference.mean(), reference.std()
    z = (frame - mu) / sd
    x = torch.tensor(z[FEATURES].to_numpy(), dtype=torch.float32)
    return x, torch.tensor(z["soc"].to_numpy(), dtype=torch.float32)


def main():
    torch.manual_seed(21)
    df = soil_samples()
    fold = np.random.default_rng(0).permutation(len(df)) % 8
    squared = []
    for k in range(8):
        train, held = df[fold != k], df[fold == k]
        x, y = standardize(train, train)
        net = fit_fold(x, y)
        xh, _ = standardize(held, train)
        net.eval()
        with torch.no_grad():
            pred = net(xh).numpy() * train["soc"].std() + train["soc"].mean()
        err = (pred - held["soc"].to_numpy()) ** 2
        squared.append(err)
        print(f"fold {k}  n={len(held)}  rmse {np.sqrt(err.mean()):.3f}")
    print(f"sd of target {df['soc'].std():.3f}")
    print(f"cv_rmse={np.sqrt(np.concatenate(squared).mean()):.4f}")


if __name__ == "__main__":
    main()
