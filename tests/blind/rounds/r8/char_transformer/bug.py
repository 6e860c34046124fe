"""Small character-level transformer on Tiny Shakespeare."""
import os
from pathlib import Path
import torch
import torch.nn as nn
import torch.nn.functional as F

DATA = Path(os.environ["TRUELOOP_DATA"] + "/tinyshakespeare")
BLOCK, BATCH, STEPS = 32, 16, 210
D_MODEL, HEADS, LAYERS = 48, 4, 2

torch.manual_seed(1337)
text = sorted(p for p in DATA.iterdir() if p.suffix == ".txt")[0].read_text()[:300_000]
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
ids = torch.tensor([stoi[c] for c in text])
cut = int(0.9 * len(ids))
train_ids, val_ids = ids[:cut], ids[cut:]


def get_batch(source):
    starts = torch.randint(len(source) - BLOCK - 1, (BATCH,))
    x = torch.stack([source[s:s + BLOCK] for s in starts])
    y = torch.stack([source[s + 1:s + BLOCK + 1] for s in starts])
    return x, y


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(D_MODEL)
        self.attn = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)
        self.norm2 = nn.LayerNorm(D_MODEL)
        self.mlp = nn.Sequential(nn.Linear(D_MODEL, 4 * D_MODEL), nn.GELU(), nn.Linear(4 * D_MODEL, D_MODEL))

    def forward(self, x, mask):
        h = self.norm1(x)
        x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class CharTransformer(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.tok = nn.Embedding(vocab, D_MODEL)
        self.pos = nn.Embedding(BLOCK, D_MODEL)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(D_MODEL)
        self.head = nn.Linear(D_MODEL, vocab)
        mask = torch.tril(torch.ones(BLOCK, BLOCK, dtype=torch.bool), diagonal=-1)
        self.register_buffer("mask", mask)

    def forward(self, idx):
        T = idx.size(1)
        x = self.tok(idx) + self.pos(torch.arange(T))
        for blk in self.blocks:
            x = blk(x, self.mask[:T, :T])
        return self.head(self.norm(x))


@torch.no_grad()
def evaluate(model, batches=16):
    model.eval()
    loss, last_hits = 0.0, 0
    for _ in range(batches):
        x, y = get_batch(val_ids)
        logits = model(x)
        loss += F.cross_entropy(logits.flatten(0, 1), y.flatten()).item()
        last_hits += (logits[:, -1].argmax(-1) == y[:, -1]).sum().item()
    model.train()
    return loss / batches, last_hits / (batches * BATCH)


@torch.no_grad()
def generate(model, prompt, n=80):
    model.eval()
    idx = torch.tensor([[stoi[c] for c in prompt]])
    for _ in range(n):
        probs = F.softmax(model(idx[:, -BLOCK:])[:, -1] / 0.8, dim=-1)
        idx = torch.cat([idx, torch.multinomial(probs, 1)], dim=1)
    model.train()
    return "".join(chars[i] for i in idx[0].tolist())


model = CharTransformer(len(chars))
opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=4e-3, total_steps=STEPS, pct_start=0.1)
model.train()
for step in range(1, STEPS + 1):
    x, y = get_batch(train_ids)
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    opt.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    sched.step()
    if step % 70 == 0:
        val_loss, last_acc = evaluate(model)
        print(f"step {step} train {loss.item():.3f} val {val_loss:.3f} next-char acc {last_acc:.3f}")
print(generate(model, "KING "))
