import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn

try:
    import tomllib
except ImportError:
    tomllib = None


def read_series(folder, nodata):
    """Index values per field and date; clouded dates carry the nodata value."""
    z = np.load(folder / "fields.npz")
    values = z["indices"].astype(np.float32)
    valid = (values != nodata).all(-1)
    return values, valid, z["yield_t_ha"].astype(np.float32)


class Standard:
    def __init__(self, values, valid):
        seen = values[valid]
        self.mean, self.std = seen.mean(0), seen.std(0)

    def __call__(self, values, valid):
        return np.where(valid[..., None], (values - self.mean) / self.std, 0.0).astype(np.float32)


class YieldNet(nn.Module):
    def __init__(self, n_bands, n_dates, dim, heads):
        super().__init__()
        self.inp = nn.Linear(n_bands, dim)
        self.date = nn.Parameter(0.1 * torch.randn(n_dates, dim))
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 1)

    def forward(self, x, valid):
        h = self.inp(x) + self.date
        a, _ = self.attn(h, h, h, key_padding_mask=~valid, need_weights=False)
        h = self.n1(h + a)
        h = self.n2(h + self.mlp(h))
        w = valid.float().unsqueeze(-1)
        return self.head((h * w).sum(1) / w.sum(1)).squeeze(-1)


def rmse(model, x, valid, y, scale):
    model.eval()
    with torch.no_grad():
        return ((model(x, valid) - y) ** 2).mean().sqrt().item() * scale


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=Path)
    folder = ap.parse_args().folder
    cfg = tomllib.loads((folder / "yield.toml").read_text())
    torch.manual_seed(cfg["seed"])
    values, valid, target = read_series(folder, cfg["data"]["nodata"])
    order = np.random.default_rng(cfg["seed"]).permutation(len(target))
    tr, va, te = np.split(order, [int(0.7 * len(order)), int(0.85 * len(order))])
    scale = Standard(values[tr], valid[tr])
    ym, ys = target[tr].mean(), target[tr].std()
    parts = [(torch.from_numpy(scale(values[r], valid[r])), torch.from_numpy(valid[r]), torch.from_numpy((target[r] - ym) / ys))
             for r in (tr, va, te)]
    model = YieldNet(values.shape[2], values.shape[1], cfg["model"]["dim"], cfg["model"]["heads"])
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["train"]["lr"], weight_decay=0.01)
    x, v, y = parts[0]
    for epoch in range(1, cfg["train"]["epochs"] + 1):
        model.train()
        total = 0.0
        for rows in torch.randperm(len(y)).split(cfg["train"]["batch_size"]):
            loss = nn.functional.mse_loss(model(x[rows], v[rows]), y[rows])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(rows)
        if epoch % 4 == 0:
            print(f"epoch {epoch} loss {total / len(y):.4f} valid rmse {rmse(model, *parts[1], ys):.3f} t/ha")
    print(f"test rmse {rmse(model, *parts[2], ys):.4f} t/ha")


if __name__ == "__main__":
    main()
