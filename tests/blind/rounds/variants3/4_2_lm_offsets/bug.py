import math

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(12)
V, BLOCK, BATCH, DIM = 16, 24, 24, 32


def synth_stream(n):
    """Second order source: the next symbol depends on the last two, with noise."""
    rule = torch.randint(V, (4, V))
    noise = torch.rand(n) < 0.15
    rand = torch.randint(V, (n,))
    s = [1, 2]
    for t in range(n):
        s.append(int(rand[t]) if noise[t] else int(rule[s[-2] % 4, s[-1]]))
    return torch.tensor(s)


stream = synth_stream(12000)
train_stream, valid_stream = stream[:10000], stream[10000:]


def get_batch(source):
    starts = torch.randint(BLOCK, (BATCH,))
    grid = starts[:, None] + torch.arange(BLOCK + 1)
    chunk = source[grid]
    return chunk[:, :-1], chunk[:, 1:]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, 4, d // 4).transpose(1, 2) for z in self.qkv(self.n1(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))


class TinyLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, DIM), nn.Embedding(BLOCK, DIM)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, V))

    def forward(self, idx):
        return self.head(self.blocks(self.tok(idx) + self.pos.weight[: idx.shape[1]]))


@torch.no_grad()
def valid_nll(model):
    model.eval()
    n = (len(valid_stream) - 1) // BLOCK
    x = valid_stream[: n * BLOCK].view(n, BLOCK)
    y = valid_stream[1 : n * BLOCK + 1].view(n, BLOCK)
    out = F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item()
    model.train()
    return out


model = TinyLM()
opt = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
for step in range(1, 241):
    x, y = get_batch(train_stream)
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    if step % 40 == 0:
        print(f"step {step}  train nll {loss.item():.3f}  valid nll {valid_nll(model):.3f}  (uniform {math.log(V):.3f})")
