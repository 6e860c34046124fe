"""LoRA: a model is trained, then frozen, and low-rank adapters whose second matrix starts at zero learn a new task;
then merged."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(6)
proto = torch.randn(4, 16) * 1.2


def batch(shift=0, n=64):
    y = torch.randint(4, (n,))
    return proto[y] + torch.randn(n, 16) * 0.7, (y + shift) % 4


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 64)
        self.mid = nn.Linear(64, 64)
        self.norm = nn.LayerNorm(64)
        self.head = nn.Linear(64, 4)

    def forward(self, x):
        x = F.gelu(self.up(x))
        return self.head(self.norm(x + F.gelu(self.mid(x))))


class LoRALinear(nn.Module):
    def __init__(self, base, rank=4, alpha=16):
        super().__init__()
        self.base = base
        for p in self.base.parameters():
            p.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.empty(rank, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        self.scaling = alpha / rank
        self.dropout = nn.Dropout(0.05)

    def forward(self, x):
        return self.base(x) + (self.dropout(x) @ self.lora_A.t() @ self.lora_B.t()) * self.scaling

    @torch.no_grad()
    def merge(self):
        self.base.weight += self.scaling * self.lora_B @ self.lora_A
        return self.base


def evaluate(model, shift):
    model.eval()
    with torch.no_grad():
        x, y = batch(shift, 200)
        return (model(x).argmax(1) == y).float().mean().item()


model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for _ in range(30):
    x, y = batch()
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("pretrained", evaluate(model, 0))

for p in model.parameters():
    p.requires_grad = False
model.mid = LoRALinear(model.mid)
model.head = LoRALinear(model.head)
trainable = [p for p in model.parameters() if p.requires_grad]
print(f"{sum(p.numel() for p in trainable)} of {sum(p.numel() for p in model.parameters())} parameters")
optimizer = torch.optim.AdamW(trainable, lr=1e-2)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=5)
model.train()
for _ in range(50):
    x, y = batch(shift=1)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(trainable, 1.0)
    optimizer.step()
    scheduler.step()
before = evaluate(model, 1)
model.mid, model.head = model.mid.merge(), model.head.merge()
print("adapted", before, "merged", evaluate(model, 1))
