"""MAML on sine curves: the outer loss goes through one inner step of adaptation."""

import copy

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))

    def forward(self, x):
        return self.net(x)


def task():
    height, phase = torch.rand(1) * 4.9 + 0.1, torch.rand(1) * 3.14
    x = torch.rand(20, 1) * 10 - 5
    return x[:10], height * torch.sin(x[:10] + phase), x[10:], height * torch.sin(x[10:] + phase)


class Maml:
    def __init__(self, model, inner_lr=0.01, outer_lr=1e-3):
        self.model, self.inner_lr = model, inner_lr
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=outer_lr)

    def inner_update(self, x, y):
        adapted = copy.deepcopy(self.model)
        loss = self.criterion(adapted(x), y)
        grads = torch.autograd.grad(loss, adapted.parameters(), create_graph=True)
        for param, grad in zip(adapted.parameters(), grads, strict=True):
            param.data -= self.inner_lr * grad
        return adapted

    def meta_step(self, tasks):
        meta_loss = 0.0
        for support_x, support_y, query_x, query_y in tasks:
            adapted = self.inner_update(support_x, support_y)
            meta_loss = meta_loss + self.criterion(adapted(query_x), query_y)
        meta_loss = meta_loss / len(tasks)
        self.optimizer.zero_grad()
        meta_loss.backward()
        self.optimizer.step()
        return meta_loss.item()


model = Net()
maml = Maml(model)
recent = []
for step in range(600):
    recent.append(maml.meta_step([task() for _ in range(5)]))
    if step % 200 == 199:
        print(f"step {step + 1} query loss after adaptation {sum(recent[-100:]) / 100:.3f}")
