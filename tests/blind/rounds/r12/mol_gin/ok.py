"""Graph network (GIN) for a solubility-like property of small molecule graphs, written without extra libraries."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader

ATOMS = ["C", "N", "O", "F", "S"]


class Mol:
    __slots__ = ("z", "edges", "y")

    def __init__(self, z, edges, y):
        self.z, self.edges, self.y = z, edges, y


def grow(rng):
    n = int(rng.integers(6, 16))
    z = rng.choice(len(ATOMS), n, p=[0.55, 0.15, 0.15, 0.07, 0.08])
    bonds = {(int(rng.integers(max(0, i - 3), i)), i) for i in range(1, n)}
    if rng.random() < 0.6:
        a = int(rng.integers(0, n - 4))
        bonds.add((a, a + 4))
    hetero = np.isin(z, [1, 2])
    deg = np.zeros(n)
    y = 0.0
    for a, b in bonds:
        deg[a] += 1
        deg[b] += 1
        y += 1.2 * (hetero[a] and hetero[b]) - 0.8 * (z[a] == 3 or z[b] == 3) * (hetero[a] or hetero[b])
        y += 0.5 * ((z[a] == 0 and z[b] == 2) or (z[a] == 2 and z[b] == 0))
    y += -0.3 * (deg >= 3).sum() + 0.05 * rng.normal()
    e = torch.tensor(sorted(bonds), dtype=torch.long).t()
    return Mol(torch.tensor(z), torch.cat([e, e.flip(0)], 1), float(y))


def collate(mols):
    z, edges, owner, y = [], [], [], []
    offset = 0
    for k, m in enumerate(mols):
        z.append(m.z)
        edges.append(m.edges + offset)
        owner.append(torch.full((len(m.z),), k))
        y.append(m.y)
        offset += len(m.z)
    return torch.cat(z), torch.cat(edges, 1), torch.cat(owner), torch.tensor(y)


class GINLayer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.mlp = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))
        self.norm = nn.LayerNorm(d)

    def forward(self, h, edges):
        src, dst = edges
        agg = torch.zeros_like(h).index_add(0, dst, h[src])
        return self.norm(h + self.mlp((1 + self.eps) * h + agg))


class GIN(nn.Module):
    def __init__(self, d=32, depth=3):
        super().__init__()
        self.embed = nn.Embedding(len(ATOMS), d)
        self.layers = nn.ModuleList([GINLayer(d) for _ in range(depth)])
        self.readout = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 1))

    def forward(self, z, edges, owner, count):
        h = self.embed(z)
        for layer in self.layers:
            h = layer(h, edges)
        per_atom = self.readout(h).squeeze(1)
        return torch.zeros(count).index_add(0, owner, per_atom)


def mae(model, loader):
    model.eval()
    err = []
    with torch.no_grad():
        for z, e, o, y in loader:
            err.append((model(z, e, o, len(y)) - y).abs())
    return torch.cat(err).mean().item()


def main():
    torch.manual_seed(6)
    rng = np.random.default_rng(6)
    mols = [grow(rng) for _ in range(2600)]
    train = DataLoader(mols[:2000], batch_size=32, shuffle=True, collate_fn=collate)
    test = DataLoader(mols[2000:], batch_size=32, collate_fn=collate)
    model = GIN()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    epochs = 10
    sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.05, total_iters=epochs)
    for ep in range(epochs):
        model.train()
        tot, seen = 0.0, 0
        for z, e, o, y in train:
            opt.zero_grad()
            loss = (model(z, e, o, len(y)) - y).pow(2).mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            tot, seen = tot + loss.item() * len(y), seen + len(y)
        sched.step()
        print(f"{ep:2d} train mse {tot / seen:.4f}")
    print(f"test mae {mae(model, test):.4f}")


if __name__ == "__main__":
    main()
