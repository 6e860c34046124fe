"""
One-shot handshape retrieval for a sign language dictionary.
Embeds 21 hand landmarks; trained with batch-hard triplets, tested on handshapes never seen in training.
"""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def make_signs(num_signs, rng):
    """Finger curl / spread / wrist parameters of every handshape."""
    return {
        "curl": rng.uniform(0.0, 1.3, (num_signs, 5)),
        "spread": rng.uniform(-0.25, 0.25, (num_signs, 5)),
        "tilt": rng.uniform(-0.5, 0.5, num_signs),
    }


def landmarks(curl, spread, tilt, rng):
    base = np.linspace(-0.8, 0.8, 5)
    pts = [np.zeros(2)]
    for f in range(5):
        knuckle = np.array([0.6 * np.sin(base[f]), 0.9 * np.cos(base[f])])
        angle, p = base[f] + spread[f], knuckle
        pts.append(p)
        for j in range(3):
            angle = angle + curl[f] * (0.6 + 0.3 * j)
            p = p + 0.33 * np.array([np.sin(angle), np.cos(angle)])
            pts.append(p)
    pts = np.stack(pts)
    th = tilt + rng.normal(0, 0.25)
    rot = np.array([[np.cos(th), -np.sin(th)], [np.sin(th), np.cos(th)]])
    pts = pts @ rot.T * rng.uniform(0.7, 1.4)
    return pts + rng.normal(0, 0.035, pts.shape)


def record(signs, per_sign, rng):
    xs, ys = [], []
    for s in range(len(signs["tilt"])):
        for _ in range(per_sign):
            curl = signs["curl"][s] + rng.normal(0, 0.09, 5)
            spread = signs["spread"][s] + rng.normal(0, 0.05, 5)
            xs.append(landmarks(curl, spread, signs["tilt"][s], rng))
            ys.append(s)
    return torch.tensor(np.stack(xs), dtype=torch.float32).flatten(1), torch.tensor(ys)


class PKSampler:
    """P classes times K samples in each batch."""

    def __init__(self, labels, p, k, batches, seed):
        self.groups = [torch.where(labels == c)[0] for c in labels.unique()]
        self.p, self.k, self.batches = p, k, batches
        self.g = torch.Generator().manual_seed(seed)

    def __iter__(self):
        for _ in range(self.batches):
            chosen = torch.randperm(len(self.groups), generator=self.g)[:self.p]
            yield torch.cat([self.groups[c][torch.randperm(len(self.groups[c]), generator=self.g)[:self.k]]
                             for c in chosen])


class Embedder(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(42, 128), nn.BatchNorm1d(128), nn.ReLU(),
            nn.Linear(128, 128), nn.BatchNorm1d(128), nn.ReLU(),
            nn.Linear(128, dim),
        )

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


def batch_hard(emb, labels, margin):
    dist = torch.cdist(emb, emb)
    same = labels[:, None] == labels[None, :]
    hardest_pos = dist.masked_fill(~same, 0.0).max(1).values
    hardest_neg = dist.masked_fill(same, float("inf")).min(1).values
    return F.relu(hardest_pos - hardest_neg + margin).mean()


@torch.no_grad()
def recall_at_1(model, x, y):
    model.eval()
    e = model(x)
    d = torch.cdist(e, e)
    d.fill_diagonal_(float("inf"))
    return (y[d.argmin(1)] == y).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=900)
    ap.add_argument("--margin", type=float, default=0.25)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--seed", type=int, default=0)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    rng = np.random.default_rng(a.seed)

    xtr, ytr = record(make_signs(80, rng), 25, rng)
    xva, yva = record(make_signs(30, rng), 10, rng)
    xte, yte = record(make_signs(60, rng), 12, rng)
    mu, sd = xtr.mean(0), xtr.std(0) + 1e-4
    xtr, xva, xte = [(v - mu) / sd for v in (xtr, xva, xte)]
    raw = torch.cdist(xte, xte).fill_diagonal_(float("inf")).argmin(1)
    print("raw landmark recall@1 %.3f" % (yte[raw] == yte).float().mean().item())

    model = Embedder()
    opt = torch.optim.Adam(model.parameters(), lr=a.lr)
    sampler = PKSampler(ytr, p=16, k=4, batches=a.steps, seed=a.seed)
    for step, idx in enumerate(sampler, 1):
        model.train()
        loss = batch_hard(model(xtr[idx]), ytr[idx], a.margin)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 150 == 0:
            print(f"step {step} loss {loss.item():.4f} valid recall@1 {recall_at_1(model, xva, yva):.3f}")
    print(f"test_recall1 {recall_at_1(model, xte, yte):.4f}")


if __name__ == "__main__":
    main()
