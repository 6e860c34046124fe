"""Tiny character transformer on tinyshakespeare."""
import argparse
import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

DATA = os.environ["TRUELOOP_DATA"]


class Block(nn.Module):
    def __init__(self, d, heads, drop):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d), nn.Dropout(drop))
        self.h = heads

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(B, T, 3, self.h, D // self.h).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(B, T, D))
        return x + self.mlp(self.ln2(x))


class CharLM(nn.Module):
    def __init__(self, vocab, d=48, layers=2, heads=4, ctx=48, drop=0.05):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.pos = nn.Parameter(torch.zeros(ctx, d))
        self.blocks = nn.Sequential(*[Block(d, heads, drop) for _ in range(layers)])
        self.norm = nn.LayerNorm(d)
        self.lm_head = nn.Linear(d, vocab, bias=False)
        for p in (self.tok.weight, self.pos, self.lm_head.weight):
            nn.init.normal_(p, std=0.02)

    def forward(self, input_ids, labels=None):
        x = self.tok(input_ids) + self.pos[: input_ids.size(1)]
        logits = self.lm_head(self.norm(self.blocks(x)))
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return logits, loss


def get_batch(ids, ctx, bs, gen):
    start = torch.randint(len(ids) - ctx - 1, (bs,), generator=gen)
    chunk = torch.stack([ids[s : s + ctx + 1] for s in start.tolist()])
    return chunk[:, :-1], chunk[:, 1:]


@torch.no_grad()
def val_loss(model, ids, ctx):
    model.eval()
    g = torch.Generator().manual_seed(99)
    out = sum(model(*get_batch(ids, ctx, 64, g))[1].item() for _ in range(3)) / 3
    model.train()
    return out


@torch.no_grad()
def next_char_accuracy(model, ids, ctx, n=1000):
    model.eval()
    hit = 0
    contexts = torch.stack([ids[i * 97 : i * 97 + ctx] for i in range(n)])
    truth = torch.stack([ids[i * 97 + ctx] for i in range(n)])
    logits, _ = model(contexts)
    hit = (logits[:, -1].argmax(-1) == truth).float().mean().item()
    model.train()
    return hit


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=360)
    ap.add_argument("--lr", type=float, default=4e-3)
    ap.add_argument("--ctx", type=int, default=48)
    ap.add_argument("--bs", type=int, default=16)
    ap.add_argument("--seed", type=int, default=1337)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    text = open(os.path.join(DATA, "tinyshakespeare", "input.txt"), encoding="utf-8").read()
    stoi = {c: i for i, c in enumerate(sorted(set(text)))}
    ids = torch.tensor([stoi[c] for c in text])
    cut = int(0.9 * len(ids))
    train_ids, val_ids = ids[:cut], ids[cut:]
    model = CharLM(len(stoi), ctx=args.ctx)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                            lr=args.lr, betas=(0.9, 0.95))
    warm = 30
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1.0, (s + 1) / warm) * (0.1 + 0.45 * (1 + math.cos(math.pi * s / args.steps))))
    gen = torch.Generator().manual_seed(args.seed)
    for step in range(args.steps):
        x, y = get_batch(train_ids, args.ctx, args.bs, gen)
        _, loss = model(x, labels=y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 60 == 0 or step == args.steps - 1:
            print(f"step {step:4d}  loss {loss.item():.3f}  val {val_loss(model, val_ids, args.ctx):.3f}")
    print(f"held-out next-char accuracy {next_char_accuracy(model, val_ids, args.ctx):.4f}")


if __name__ == "__main__":
    main()
