import os
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1337)
text = open(os.environ["TRUELOOP_DATA"] + "/tinyshakespeare/input.txt").read()[:150000]
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text])
n_val = len(data) // 10
train_data, val_data = data[:-n_val], data[-n_val:]
V, T, D, HEADS, LAYERS = len(chars), 32, 40, 4, 2
B, STEPS, LR = 16, 240, 6e-3


def get_batch(src, n):
    ix = torch.randint(0, len(src) - T - 1, (n,))
    x = torch.stack([src[i:i + T] for i in ix])
    y = torch.stack([src[i + 1:i + T + 1] for i in ix])
    return x, y


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.proj = nn.Linear(D, D)
        future = torch.triu(torch.ones(T, T, dtype=torch.bool), diagonal=1)
        self.register_buffer("future", future)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (z.view(b, t, HEADS, -1).transpose(1, 2) for z in self.qkv(x).chunk(3, dim=-1))
        h = F.scaled_dot_product_attention(q, k, v, attn_mask=self.future[:t, :t])
        return self.proj(h.transpose(1, 2).reshape(b, t, D))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn = Attention()
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class CharLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(V, D)
        self.pos = nn.Embedding(T, D)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.ln = nn.LayerNorm(D)
        self.head = nn.Linear(D, V)

    def forward(self, x):
        h = self.tok(x) + self.pos(torch.arange(x.shape[1]))
        return self.head(self.ln(self.blocks(h)))


model = CharLM()
opt = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.05)
sched = torch.optim.lr_scheduler.LambdaLR(
    opt, lambda s: min(1.0, (s + 1) / 20) * 0.5 * (1 + math.cos(math.pi * s / STEPS)))


@torch.no_grad()
def val_loss(batches=2):
    model.eval()
    out = 0.0
    for _ in range(batches):
        x, y = get_batch(val_data, 48)
        out += F.cross_entropy(model(x).view(-1, V), y.view(-1)).item()
    return out / batches


@torch.no_grad()
def sample(n=60):
    model.eval()
    ctx = val_data[:T][None]
    for _ in range(n):
        p = F.softmax(model(ctx[:, -T:])[:, -1] / 0.8, dim=-1)
        ctx = torch.cat([ctx, torch.multinomial(p, 1)], dim=1)
    return "".join(chars[i] for i in ctx[0, T:].tolist())


running = 0.0
for step in range(1, STEPS + 1):
    model.train()
    x, y = get_batch(train_data, B)
    loss = F.cross_entropy(model(x).view(-1, V), y.view(-1))
    opt.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    sched.step()
    running += loss.item()
    if step % 60 == 0:
        print(f"step {step} train {running / 60:.3f} val {val_loss():.3f}")
        running = 0.0

torch.save(model.state_dict(), "/tmp/char_lm.pt")
x, y = get_batch(val_data, 500)
with torch.no_grad():
    model.eval()
    last = F.cross_entropy(model(x)[:, -1], y[:, -1]).item()
print(f"final val {val_loss():.3f}  loss of the character after a full window {last:.3f}")
print(sample())
