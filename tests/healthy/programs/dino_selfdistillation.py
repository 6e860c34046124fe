"""DINO: a student follows its own average; centred and sharpened targets, weight-normed last layer that rests for the
first steps."""

import math

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(47)
DIM, OUT, STEPS, REST = 20, 24, 60, 12


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(DIM, 32), nn.GELU(), nn.Linear(32, 16))
        self.last_layer = nn.utils.parametrizations.weight_norm(nn.Linear(16, OUT, bias=False))
        self.last_layer.parametrizations.weight.original0.data.fill_(1)
        self.last_layer.parametrizations.weight.original0.requires_grad = False

    def forward(self, x):
        return self.last_layer(F.normalize(self.mlp(x), dim=-1))


class DINOLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("center", torch.zeros(1, OUT))

    def forward(self, student_out, teacher_out):
        targets = F.softmax((teacher_out - self.center) / 0.04, dim=-1).detach()
        loss = torch.sum(-targets * F.log_softmax(student_out / 0.1, dim=-1), dim=-1).mean()
        self.update_center(teacher_out)
        return loss

    @torch.no_grad()
    def update_center(self, teacher_out):
        self.center = self.center * 0.9 + teacher_out.mean(0, keepdim=True) * 0.1


def cancel_gradients_last_layer(step, model):
    if step >= REST:
        return
    for n, p in model.named_parameters():
        if "last_layer" in n:
            p.grad = None


def view(x):
    return x * (torch.rand_like(x) > 0.1) + 0.1 * torch.randn_like(x)


student, teacher = Head(), Head()
teacher.load_state_dict(student.state_dict())
for p in teacher.parameters():
    p.requires_grad = False
dino_loss = DINOLoss()
optimizer = torch.optim.AdamW([p for p in student.parameters() if p.requires_grad], lr=1e-3)
lr_schedule = [3e-3 * 0.5 * (1 + math.cos(math.pi * i / STEPS)) for i in range(STEPS)]
momentum_schedule = [1 - 0.05 * 0.5 * (1 + math.cos(math.pi * i / STEPS)) for i in range(STEPS)]
centres = torch.randn(8, DIM) * 2

for it in range(STEPS):
    for group in optimizer.param_groups:
        group["lr"] = lr_schedule[it]
    x = centres[torch.randint(0, 8, (32,))] + 0.3 * torch.randn(32, DIM)
    teacher_out = teacher(view(x))
    loss = dino_loss(student(view(x)), teacher_out)
    if not math.isfinite(loss.item()):
        raise SystemExit(f"loss is {loss.item()}")
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(student.parameters(), 3.0)
    cancel_gradients_last_layer(it, student)
    optimizer.step()
    with torch.no_grad():
        m = momentum_schedule[it]
        for param_q, param_k in zip(student.parameters(), teacher.parameters(), strict=True):
            param_k.data.mul_(m).add_((1 - m) * param_q.detach().data)
    if it % 15 == 14:
        print(f"{it} loss {loss.item():.3f} clusters {teacher_out.argmax(1).unique().numel()}")
