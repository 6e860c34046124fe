import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(10)
MOD, LENGTH = 9, 16


def corpus(n):
    """x[t] = x[t-1] + x[t-2] (mod 9), with a random token one time in five."""
    x = torch.randint(0, MOD, (n, LENGTH + 1))
    slip = torch.rand(n, LENGTH + 1) < 0.2
    for t in range(2, LENGTH + 1):
        x[:, t] = torch.where(slip[:, t], x[:, t], (x[:, t - 1] + x[:, t - 2]) % MOD)
    return x


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.mix = nn.Linear(dim, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, h):
        b, t, d = h.shape
        q, k, v = self.qkv(self.norm1(h)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5
        closed = torch.ones(t, t, dtype=torch.bool).triu(diagonal=2)
        weight = score.masked_fill(closed, float("-inf")).softmax(dim=-1)
        h = h + self.mix((weight @ v).transpose(1, 2).reshape(b, t, d))
        return h + self.mlp(self.norm2(h))


class Decoder(nn.Module):
    def __init__(self, dim=32, heads=4, depth=2):
        super().__init__()
        self.token, self.place = nn.Embedding(MOD, dim), nn.Embedding(LENGTH, dim)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, MOD))

    def forward(self, x):
        return self.head(self.blocks(self.token(x) + self.place(torch.arange(x.size(1)))))


def nll(model, text):
    return F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())


train, val = corpus(3000), corpus(300)
model = Decoder()
opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
for step in range(1, 301):
    model.train()
    loss = nll(model, train[torch.randint(0, len(train), (48,))])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 60 == 0:
        model.eval()
        with torch.no_grad():
            print(f"step {step} train {loss.item():.3f} val {nll(model, val).item():.3f}")
