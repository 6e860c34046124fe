"""Mood of subtitle cues (upbeat / gloomy) from token ids, small transformer."""
import argparse
import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

FILLER, NEG = list(range(12, 50)), [1, 2, 3]
GOOD, BAD = [4, 5, 6, 7], [8, 9, 10, 11]


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--n-train", type=int, default=3000)
    p.add_argument("--n-val", type=int, default=600)
    p.add_argument("--cue-len", type=int, default=12)
    p.add_argument("--dim", type=int, default=32)
    p.add_argument("--heads", type=int, default=2)
    p.add_argument("--layers", type=int, default=1)
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--batch-size", type=int, default=50)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--seed", type=int, default=11)
    return p.parse_args()


def make_cues(n, length, rng):
    """Every cue holds one mood word; a negator right before it turns it round."""
    cues = rng.choice(FILLER, size=(n, length))
    labels = np.zeros(n, dtype=np.int64)
    for i in range(n):
        s = rng.integers(1, length)
        good = rng.random() < 0.5
        cues[i, s] = rng.choice(GOOD if good else BAD)
        if rng.random() < 0.4:
            cues[i, s - 1] = rng.choice(NEG)
            good = not good
        elif rng.random() < 0.15:
            other = rng.choice([k for k in range(length) if k not in (s - 1, s)])
            cues[i, other] = rng.choice(NEG)
        labels[i] = int(good)
        if rng.random() < 0.02:
            labels[i] = 1 - labels[i]
    return torch.from_numpy(cues), torch.from_numpy(labels)


class Block(nn.Module):
    def __init__(self, dim, heads, drop=0.1):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, dropout=drop)
        self.norm2 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Dropout(drop), nn.Linear(2 * dim, dim))

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.ff(self.norm2(x))


class CueClassifier(nn.Module):
    def __init__(self, vocab, length, dim, heads, layers):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(1, length, dim) * 0.1)
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 2)

    def forward(self, ids):
        x = self.tok(ids) + self.pos
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x).mean(dim=1))


@torch.no_grad()
def accuracy(model, ids, labels, bs=200):
    model.eval()
    hits = 0
    for a in range(0, len(ids), bs):
        hits += (model(ids[a:a + bs]).argmax(-1) == labels[a:a + bs]).sum().item()
    return hits / len(ids)


def main():
    args = get_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    tr_x, tr_y = make_cues(args.n_train, args.cue_len, rng)
    va_x, va_y = make_cues(args.n_val, args.cue_len, rng)
    model = CueClassifier(50, args.cue_len, args.dim, args.heads, args.layers)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    for ep in range(args.epochs):
        model.train()
        total = 0.0
        perm = torch.randperm(len(tr_x))
        for idx in perm.split(args.batch_size):
            loss = F.cross_entropy(model(tr_x[idx]), tr_y[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.item() * len(idx)
        print(f"epoch {ep + 1:2d}  train loss {total / len(tr_x):.4f}  val acc {accuracy(model, va_x, va_y):.4f}")


if __name__ == "__main__":
    main()
