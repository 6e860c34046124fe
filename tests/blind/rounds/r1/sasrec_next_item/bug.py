"""Self-attentive sequential recommender: next-item prediction at every position."""
import math
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(6)
rng = np.random.default_rng(6)
N_ITEMS, SEQ, DIM, EPOCHS, BATCH = 60, 16, 32, 14, 64


def sessions(n):
    """browsing follows a sparse item graph; every item leads mostly to three others"""
    graph = np.random.default_rng(100).integers(0, N_ITEMS, (N_ITEMS, 3))
    out = np.zeros((n, SEQ + 1), dtype=np.int64)
    out[:, 0] = rng.integers(0, N_ITEMS, n)
    for t in range(SEQ):
        follow = graph[out[:, t], rng.choice(3, n, p=[0.6, 0.25, 0.15])]
        jump = rng.random(n) < 0.1
        out[:, t + 1] = np.where(jump, rng.integers(0, N_ITEMS, n), follow)
    return torch.from_numpy(out)


class AttentionBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
        blocked = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(2)
        scores = scores.masked_fill(blocked, float("-inf"))
        x = x + self.proj(scores.softmax(-1) @ v)
        return x + self.ff(self.norm2(x))


class SASRec(nn.Module):
    def __init__(self):
        super().__init__()
        self.item = nn.Embedding(N_ITEMS, DIM)
        self.position = nn.Embedding(SEQ, DIM)
        self.blocks = nn.Sequential(AttentionBlock(DIM), AttentionBlock(DIM))
        self.norm = nn.LayerNorm(DIM)
        self.out = nn.Linear(DIM, N_ITEMS)

    def forward(self, items):
        x = self.item(items) + self.position(torch.arange(items.shape[1]))
        return self.out(self.norm(self.blocks(x)))


train, val = sessions(1200), sessions(400)
model = SASRec()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)


@torch.no_grad()
def hit_rate(k=3):
    """only the last click of a session is predicted, as in serving"""
    model.eval()
    top = model(val[:, :-1])[:, -1].topk(k).indices
    return (top == val[:, -1:]).any(1).float().mean().item()


for epoch in range(EPOCHS):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(train)).split(BATCH):
        batch = train[idx]
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    if epoch % 3 == 1:
        print(f"epoch {epoch:2d} loss {total / len(train):.3f} val HR@3 {hit_rate():.3f}")
