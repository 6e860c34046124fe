"""Patient-level diagnosis from sets of measured cells with attention pooling."""
import argparse

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

MARKERS = 8


class Cytometry:
    def __init__(self, n_patients, cells, seed):
        rng = np.random.default_rng(seed)
        self.y = (rng.random(n_patients) < 0.4).astype(np.float32)
        batch_effect = rng.normal(0, 0.2, (n_patients, 1, MARKERS))
        kind = rng.integers(0, 3, (n_patients, cells))
        centre = np.random.default_rng(1000).normal(0, 1.2, (3, MARKERS))
        x = centre[kind] + rng.normal(0, 0.8, (n_patients, cells, MARKERS)) + batch_effect
        share = np.where(self.y > 0, rng.uniform(0.08, 0.3, n_patients), rng.uniform(0, 0.05, n_patients))
        blast = rng.random((n_patients, cells)) < share[:, None]
        shift = np.array([1.5, -1.2, 0, 0, 1.4, 0, 0, -1.0])
        self.x = (x + blast[..., None] * shift).astype(np.float32)

    def stats(self):
        return self.x.mean((0, 1)), self.x.std((0, 1))

    def batches(self, size, mean, std, generator=None):
        n = len(self.y)
        order = torch.arange(n) if generator is None else torch.randperm(n, generator=generator)
        for idx in order.split(size):
            yield torch.from_numpy((self.x[idx.numpy()] - mean) / std), torch.from_numpy(self.y[idx.numpy()])


class AttentionPool(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gate = nn.Sequential(nn.Linear(dim, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, h, owner, n):
        w = self.gate(h).squeeze(1).clamp(-8, 8).exp()
        norm = torch.zeros(n).index_add(0, owner, w)
        return torch.zeros(n, h.shape[1]).index_add(0, owner, h * (w / norm[owner])[:, None])


class PatientNet(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.cell = nn.Sequential(nn.Linear(MARKERS, dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU())
        self.pool = AttentionPool(dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        b, k, _ = x.shape
        h = self.cell(x.reshape(b * k, -1))
        owner = torch.arange(b).repeat_interleave(k)
        return self.out(self.pool(h, owner, b)).squeeze(1)


def main(args):
    torch.manual_seed(args.seed)
    train, test = Cytometry(500, args.cells, args.seed), Cytometry(300, args.cells, args.seed + 1)
    mean, std = train.stats()
    model = PatientNet()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=1e-4)
    g = torch.Generator().manual_seed(args.seed)
    for epoch in range(args.epochs):
        model.train()
        losses = []
        for x, y in train.batches(20, mean, std, g):
            opt.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch:2d} loss {np.mean(losses):.4f}")
    model.eval()
    with torch.no_grad():
        scores = torch.cat([model(x) for x, _ in test.batches(20, mean, std)])
    print(f"test_auc={roc_auc_score(test.y, scores.numpy()):.4f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=23)
    p.add_argument("--cells", type=int, default=40)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--epochs", type=int, default=10)
    main(p.parse_args())
