"""Character-level transformer on Shakespeare."""
import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

PATH = os.path.join(os.environ["TRUELOOP_DATA"], "tinyshakespeare", "input.txt")

context = 40
batch_size = 20
width, heads, depth = 64, 4, 2
max_steps = 210
warmup = 20
base_lr = 3e-3


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, heads, c // heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.n2(x))


class CharLM(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.tok = nn.Embedding(vocab, width)
        self.pos = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[Block() for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)
        nn.init.normal_(self.tok.weight, std=0.02)
        nn.init.normal_(self.pos.weight, std=0.02)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def lm_loss(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def get_batch(data, gen, n):
    starts = torch.randint(0, len(data) - context - 1, (n,), generator=gen)
    rows = torch.stack([data[s:s + context + 1] for s in starts])
    return rows[:, :-1], rows[:, 1:]


@torch.no_grad()
def validate(model, data, n_batches=4):
    model.eval()
    gen = torch.Generator().manual_seed(77)
    total = 0.0
    for _ in range(n_batches):
        x, y = get_batch(data, gen, 48)
        total += lm_loss(model(x), y).item()
    return total / n_batches


@torch.no_grad()
def sample(model, stoi, itos, n=120):
    model.eval()
    gen = torch.Generator().manual_seed(1)
    ids = [stoi[c] for c in "\nKING "]
    for _ in range(n):
        logits = model(torch.tensor([ids[-context:]]))[0, -1]
        ids.append(torch.multinomial(logits.softmax(0), 1, generator=gen).item())
    return "".join(itos[i] for i in ids)


def lr_factor(step):
    if step < warmup:
        return (step + 1) / warmup
    return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (max_steps - warmup)))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1337)
    text = open(PATH, encoding="utf-8").read()
    chars = sorted(set(text))
    stoi = {c: i for i, c in enumerate(chars)}
    data = torch.tensor([stoi[c] for c in text])
    cut = int(0.9 * len(data))
    train, val = data[:cut], data[cut:]

    model = CharLM(len(chars))
    opt = torch.optim.AdamW(model.parameters(), lr=base_lr, betas=(0.9, 0.98), weight_decay=0.01)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lr_factor)
    gen = torch.Generator().manual_seed(2)
    t0, running = time.time(), []
    for step in range(max_steps):
        model.train()
        x, y = get_batch(train, gen, batch_size)
        loss = lm_loss(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        running.append(loss.item())
        if (step + 1) % 42 == 0:
            print(f"step {step + 1:4d} train {sum(running) / len(running):.4f} "
                  f"val {validate(model, val):.4f} ({time.time() - t0:.0f}s)")
            running = []
    print(sample(model, stoi, chars))


if __name__ == "__main__":
    main()
