"""Next-value transformer for glucose curves; the forecast continues a curve step by step."""
import argparse
import math

import numpy as np
import torch
from torch import nn


def curves(n, steps, seed):
    rng = np.random.default_rng(seed)
    level = np.zeros((n, steps))
    t = np.arange(steps)
    base = rng.normal(100, 10, (n, 1))
    period = rng.choice([8.0, 10.0, 12.0], (n, 1))
    phase = rng.uniform(0, 2 * np.pi, (n, 1))
    level = base + 25 * np.sin(2 * np.pi * t / period + phase) + 8 * np.sin(4 * np.pi * t / period + phase)
    return torch.tensor(level + rng.normal(0, 2.5, (n, steps)), dtype=torch.float32)


class CausalAttention(nn.Module):
    def __init__(self, dim, heads, max_len):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        mask = torch.tril(torch.ones(max_len, max_len), diagonal=1).bool()
        self.register_buffer("mask", mask)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(x).chunk(3, dim=-1))
        att = q @ k.transpose(-2, -1) / math.sqrt(d / self.heads)
        att = att.masked_fill(~self.mask[:t, :t], float("-inf")).softmax(-1)
        return self.out((att @ v).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads, max_len):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = CausalAttention(dim, heads, max_len)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.att(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class Forecaster(nn.Module):
    def __init__(self, dim=32, heads=4, layers=2, max_len=40):
        super().__init__()
        self.inp = nn.Linear(1, dim)
        self.pos = nn.Parameter(torch.randn(max_len, dim) * 0.02)
        self.blocks = nn.Sequential(*[Block(dim, heads, max_len) for _ in range(layers)])
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        h = self.inp(x.unsqueeze(-1)) + self.pos[:x.shape[1]]
        return self.out(self.blocks(h)).squeeze(-1)

    @torch.no_grad()
    def extend(self, x, steps):
        for _ in range(steps):
            x = torch.cat([x, self(x)[:, -1:]], dim=1)
        return x[:, -steps:]


def main(args):
    torch.manual_seed(args.seed)
    train, test = curves(800, 36, args.seed), curves(200, 36, args.seed + 1)
    mu, sd = train.mean(), train.std()
    train, test = (train - mu) / sd, (test - mu) / sd
    model = Forecaster()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        losses = []
        for idx in torch.randperm(len(train)).split(args.batch):
            seq = train[idx]
            loss = nn.functional.mse_loss(model(seq[:, :-1]), seq[:, 1:])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch:2d} loss {np.mean(losses):.4f}")
    model.eval()
    pred = model.extend(test[:, :30], 6)
    print(f"forecast_mae={(pred - test[:, 30:]).abs().mean().item() * sd.item():.4f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--batch", type=int, default=50)
    p.add_argument("--epochs", type=int, default=12)
    main(p.parse_args())
