"""A causal transformer over token windows, gradient accumulation, warm-up and decay per step."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(4)
tokens = torch.randint(0, 20, (4000,))
tokens[1::2] = (tokens[0::2] * 3 + 1) % 20
block, batch = 16, 16


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(20, 32)
        self.positions = nn.Embedding(block, 32)
        self.blocks = nn.ModuleList([Block(32, 4) for _ in range(2)])
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 20)

    def forward(self, x):
        x = self.tokens(x) + self.positions(torch.arange(x.shape[1]))
        for layer in self.blocks:
            x = layer(x)
        return self.head(self.norm(x))


def get_batch():
    starts = torch.randint(0, len(tokens) - block - 1, (batch,))
    x = torch.stack([tokens[i : i + block] for i in starts])
    y = torch.stack([tokens[i + 1 : i + block + 1] for i in starts])
    return x, y


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
steps, accumulation = 110, 2
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=steps)
model.train()
for step in range(steps):
    optimizer.zero_grad()
    for micro in range(accumulation):
        x, y = get_batch()
        logits = model(x)
        loss = F.cross_entropy(logits.view(-1, 20), y.view(-1)) / accumulation
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
