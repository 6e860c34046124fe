import math, os

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1337)
BLOCK, BATCH, WIDTH, HEADS, LAYERS = 32, 16, 64, 4, 2
STEPS, LR = 120, 5e-3

text = open(os.environ["TRUELOOP_DATA"] + "/tinyshakespeare/input.txt").read()[:300_000]
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text])
cut = int(0.9 * len(data))
train_data, val_data = data[:cut], data[cut:]


def get_batch(source):
    start = torch.randint(len(source) - BLOCK - 1, (BATCH,))
    x = torch.stack([source[s:s + BLOCK] for s in start])
    y = torch.stack([source[s + 1:s + BLOCK + 1] for s in start])
    return x, y


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        mask = torch.triu(torch.ones(BLOCK, BLOCK, dtype=torch.bool), diagonal=2)
        self.register_buffer("mask", mask)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, HEADS, C // HEADS).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-2, -1) / math.sqrt(C // HEADS)
        att = att.masked_fill(self.mask[:T, :T], float("-inf")).softmax(-1)
        return self.out((att @ v).transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.att = SelfAttention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.att(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class CharLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(len(chars), WIDTH)
        self.pos = nn.Embedding(BLOCK, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.ln = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, len(chars))

    def forward(self, x):
        h = self.tok(x) + self.pos(torch.arange(x.size(1)))
        return self.head(self.ln(self.blocks(h)))


@torch.no_grad()
def estimate(model, rounds=20):
    model.eval()
    full, last = 0.0, 0.0
    for _ in range(rounds):
        x, y = get_batch(val_data)
        logits = model(x)
        full += F.cross_entropy(logits.flatten(0, 1), y.flatten()).item()
        last += F.cross_entropy(logits[:, -1], y[:, -1]).item()
    model.train()
    return full / rounds, last / rounds


model = CharLM()
opt = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=LR, total_steps=STEPS)
for step in range(1, STEPS + 1):
    x, y = get_batch(train_data)
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    sched.step()
    if step % 40 == 0:
        full, last = estimate(model)
        print(f"step {step} train {loss.item():.3f} val {full:.3f} val at last char {last:.3f}")
