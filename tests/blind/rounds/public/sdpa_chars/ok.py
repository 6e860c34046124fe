"""A one-layer character model on first names, attention through scaled_dot_product_attention."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
names = open(os.path.join(os.environ["TRUELOOP_DATA"], "names", "names.txt")).read().split()[:6000]
text = "\n".join(names) + "\n"
letters = sorted(set(text))
ids = torch.tensor([letters.index(c) for c in text])
cut = int(0.9 * len(ids))
CONTEXT, WIDTH = 32, 48


def batch(data, size=32):
    at = torch.randint(0, len(data) - CONTEXT - 1, (size,))
    return torch.stack([data[i : i + CONTEXT] for i in at]), torch.stack([data[i + 1 : i + CONTEXT + 1] for i in at])


class Attention(nn.Module):
    def __init__(self, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mask", torch.triu(torch.ones(CONTEXT, CONTEXT), diagonal=1).bool())

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=~self.mask[:t, :t])
        return self.proj(context.transpose(1, 2).reshape(b, t, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Chars(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(len(letters), WIDTH)
        self.place = nn.Embedding(CONTEXT, WIDTH)
        self.block = Block()
        self.head = nn.Linear(WIDTH, len(letters))

    def forward(self, x):
        return self.head(self.block(self.token(x) + self.place(torch.arange(x.shape[1]))))


model = Chars()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
for step in range(300):
    x, y = batch(ids[:cut])
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 99:
        model.eval()
        with torch.no_grad():
            x, y = batch(ids[cut:], 128)
            held = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            # what generation sees: only the last position, with nothing after it
            last = F.cross_entropy(model(x)[:, -1], y[:, -1])
        model.train()
        print(f"step {step + 1} loss {loss.item():.3f} held out {held.item():.3f} last position {last.item():.3f}")
