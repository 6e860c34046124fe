"""A residual transformer encoder with gradient checkpointing, under bfloat16 autocast, linear warm-up and cosine decay
by LambdaLR."""

import math

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

torch.manual_seed(29)
VOCAB, LENGTH, DIM, CLASSES = 20, 12, 32, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.attention = nn.MultiheadAttention(DIM, 4, dropout=0.1, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM), nn.Dropout(0.1))

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Encoder(nn.Module):
    def __init__(self, depth=3, use_checkpoint=True):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.position = nn.Parameter(0.02 * torch.randn(1, LENGTH, DIM))
        self.cls = nn.Parameter(torch.zeros(1, 1, DIM))
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.neck = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, DIM), nn.GELU(), nn.Linear(DIM, DIM), nn.GELU())
        self.head = nn.Linear(DIM, CLASSES)
        self.use_checkpoint = use_checkpoint

    def forward(self, tokens):
        x = self.embed(tokens) + self.position
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.use_checkpoint and self.training else block(x)
        x = checkpoint_sequential(self.neck, 2, x[:, 0], use_reentrant=False)
        return self.head(x)


def make(count):
    tokens = torch.randint(0, VOCAB, (count, LENGTH))
    labels = (tokens < 5).sum(1).clamp(1, 4) - 1
    return tokens, labels


def lr_at(step, warmup=5, total=40):
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


@torch.no_grad()
def evaluate(model, tokens, labels):
    model.eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(tokens)
    model.train()
    return (logits.float().argmax(-1) == labels).float().mean().item()


model = Encoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_at)
criterion = nn.CrossEntropyLoss()
train_x, train_y = make(640)
valid_x, valid_y = make(128)
model.train()
for step in range(40):
    index = torch.randint(0, len(train_x), (32,))
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        logits = model(train_x[index])
        loss = criterion(logits, train_y[index])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    grad_norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    if step % 10 == 9:
        print(f"{step} loss {loss.item():.3f} norm {grad_norm:.2f} valid {evaluate(model, valid_x, valid_y):.2f}")
