"""Meta-learning on sine waves: second-order MAML by torch.func, the same by autograd.grad with fast weights, and
Reptile by hand."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap

torch.manual_seed(12)


def sample_tasks(n, k=10):
    amplitude, phase = torch.rand(n, 1, 1) * 3 + 0.5, torch.rand(n, 1, 1) * math.pi
    x = torch.rand(n, 2 * k, 1) * 8 - 4
    y = amplitude * torch.sin(x + phase)
    return x[:, :k], y[:, :k], x[:, k:], y[:, k:]


def network():
    return nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))


net = network()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)


def loss_of(params, x, y):
    return F.mse_loss(functional_call(net, params, (x,)), y)


def adapted_loss(params, x1, y1, x2, y2, alpha=0.05):
    grads = grad(loss_of)(params, x1, y1)
    fast = {name: p - alpha * grads[name] for name, p in params.items()}
    return loss_of(fast, x2, y2)


for it in range(40):
    params = dict(net.named_parameters())
    loss = vmap(adapted_loss, in_dims=(None, 0, 0, 0, 0))(params, *sample_tasks(8)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print("torch.func", loss.item())

second = network()
opt = torch.optim.Adam(second.parameters(), lr=3e-3)
for it in range(15):
    opt.zero_grad()
    outer = 0.0
    for x1, y1, x2, y2 in zip(*sample_tasks(4), strict=True):
        inner = F.mse_loss(second(x1), y1)
        names, values = zip(*second.named_parameters(), strict=True)
        grads = torch.autograd.grad(inner, values, create_graph=True)
        fast = {n: p - 0.05 * g for n, p, g in zip(names, values, grads, strict=True)}
        outer = outer + F.mse_loss(functional_call(second, fast, (x2,)), y2)
    outer = outer / 4
    outer.backward()
    opt.step()
print("autograd.grad", outer.item())

reptile = network()
for it in range(10):
    learner = copy.deepcopy(reptile)
    inner_opt = torch.optim.SGD(learner.parameters(), lr=0.02)
    x1, y1, _, _ = (t[0] for t in sample_tasks(1))
    for _ in range(5):
        inner_opt.zero_grad()
        loss = F.mse_loss(learner(x1), y1)
        loss.backward()
        inner_opt.step()
    with torch.no_grad():
        for p, q in zip(reptile.parameters(), learner.parameters(), strict=True):
            p += 0.3 * (q - p)
print("reptile", loss.item())
