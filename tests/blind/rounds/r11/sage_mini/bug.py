"""Mini-batch GraphSAGE on a citation-like graph, neighbour sampling written by hand."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

rng = np.random.default_rng(21)
torch.manual_seed(21)


def build_graph(n=3000, classes=5, deg=10, feats=24):
    y = rng.integers(0, classes, n)
    by_class = [np.flatnonzero(y == c) for c in range(classes)]
    src, dst = [], []
    for v in range(n):
        for _ in range(deg // 2):
            u = rng.choice(by_class[y[v]]) if rng.random() < 0.55 else rng.integers(n)
            src += [v, u]
            dst += [u, v]
    order = np.argsort(src, kind="stable")
    cols = np.asarray(dst)[order]
    ptr = np.concatenate([[0], np.cumsum(np.bincount(src, minlength=n))])
    centres = rng.normal(0, 0.3, (classes, feats))
    x = centres[y] + rng.normal(0, 1, (n, feats))
    return ptr, cols, x.astype(np.float32), y


class NeighbourSampler:
    def __init__(self, ptr, cols, fanout):
        self.ptr, self.cols, self.fanout = ptr, cols, fanout

    def neighbours(self, nodes):
        lo, hi = self.ptr[nodes], self.ptr[nodes + 1]
        pick = lo[:, None] + (rng.random((len(nodes), self.fanout)) * (hi - lo)[:, None]).astype(int)
        return self.cols[pick]

    def sample(self, seeds):
        hop1 = self.neighbours(seeds)
        rest = np.setdiff1d(hop1, seeds)
        hop2 = self.neighbours(rest)
        src = np.concatenate([hop1.ravel(), hop2.ravel()])
        dst = np.repeat(np.concatenate([seeds, rest]), self.fanout)
        n_id = np.unique(np.concatenate([src, dst]))
        edge = np.stack([np.searchsorted(n_id, src), np.searchsorted(n_id, dst)])
        return n_id, torch.from_numpy(edge)


class SAGE(nn.Module):
    def __init__(self, d_in, hid, d_out):
        super().__init__()
        self.self1, self.nbr1 = nn.Linear(d_in, hid), nn.Linear(d_in, hid, bias=False)
        self.self2, self.nbr2 = nn.Linear(hid, d_out), nn.Linear(hid, d_out, bias=False)

    @staticmethod
    def mean_nbr(h, edge):
        out = torch.zeros_like(h).index_add_(0, edge[1], h[edge[0]])
        cnt = torch.zeros(len(h)).index_add_(0, edge[1], torch.ones(edge.shape[1]))
        return out / cnt.clamp(min=1).unsqueeze(-1)

    def forward(self, x, edge):
        h = F.relu(self.self1(x) + self.nbr1(self.mean_nbr(x, edge)))
        h = F.dropout(h, 0.3, self.training)
        return self.self2(h) + self.nbr2(self.mean_nbr(h, edge))


ptr, cols, x, y = build_graph()
x, y = torch.from_numpy(x), torch.from_numpy(y)
perm = rng.permutation(len(y))
train_id, val_id, test_id = perm[:1200], perm[1200:1800], perm[1800:]
full_edge = torch.from_numpy(np.stack([cols, np.repeat(np.arange(len(y)), np.diff(ptr))]))
sampler = NeighbourSampler(ptr, cols, fanout=6)
model = SAGE(x.shape[1], 32, 5)
opt = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)


def accuracy(ids):
    model.eval()
    with torch.no_grad():
        pred = model(x, full_edge).argmax(-1)
    return (pred[ids] == y[ids]).float().mean().item()


for epoch in range(12):
    model.train()
    shuffled = rng.permutation(train_id)
    total = 0.0
    for i in range(0, len(shuffled), 64):
        seeds = shuffled[i:i + 64]
        n_id, edge = sampler.sample(seeds)
        out = model(x[n_id], edge)
        loss = F.cross_entropy(out[:len(seeds)], y[seeds])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(seeds)
    print(f"epoch {epoch:2d} loss {total / len(train_id):.4f} val acc {accuracy(val_id):.4f}")
print(f"test acc {accuracy(test_id):.4f}")
