"""A sparse mixture of experts: top-2 routing, some experts idle for many steps, a balance loss, accumulation over
micro-batches."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(77)
DIM, EXPERTS, ACCUMULATE = 16, 12, 4
teacher = torch.randn(3, DIM, DIM) / DIM**0.5


def micro_batch(n=24):
    kind = torch.randint(3, (n,))
    x = torch.randn(n, DIM) + 2 * F.one_hot(kind, DIM)
    return x, torch.einsum("nd,nde->ne", x, teacher[kind])


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Linear(DIM, 32, bias=False)
        self.w2 = nn.Linear(32, DIM, bias=False)
        self.w3 = nn.Linear(DIM, 32, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class MoE(nn.Module):
    def __init__(self, top_k=2):
        super().__init__()
        self.top_k = top_k
        self.gate = nn.Linear(DIM, EXPERTS, bias=False)
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))
        self.aux_loss = None

    def forward(self, x):
        probabilities = self.gate(x).softmax(dim=-1)
        weight, chosen = probabilities.topk(self.top_k, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            row, slot = torch.where(chosen == i)
            if len(row) == 0:
                continue
            out.index_add_(0, row, expert(x[row]) * weight[row, slot, None])
        share = F.one_hot(chosen, EXPERTS).float().sum(1).mean(0)
        self.aux_loss = EXPERTS * (share * probabilities.mean(0)).sum()
        return out


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.moe = MoE()
        self.out = nn.Linear(DIM, DIM)
        with torch.no_grad():  # a gate that prefers a few experts at first
            self.moe.gate.weight[8:] = 0.0

    def forward(self, x):
        return self.out(x + self.moe(self.norm(x)))


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=4)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=16)
scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], milestones=[4])
for step in range(20):
    total = 0.0
    for _ in range(ACCUMULATE):
        x, y = micro_batch()
        loss = F.mse_loss(model(x), y) + 0.001 * model.moe.aux_loss
        (loss / ACCUMULATE).backward()
        total += loss.item() / ACCUMULATE
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    scheduler.step()
    if step % 5 == 0:
        print(f"step {step}: {total:.4f} at {scheduler.get_last_lr()[0]:.5f}")
