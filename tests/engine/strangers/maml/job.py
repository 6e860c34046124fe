import torch
from torch import nn
from torch.func import functional_call

INNER = 0.05
draws = torch.Generator().manual_seed(0)
amplitude, phase = torch.rand(200, 1, generator=draws) * 4 + 1, torch.rand(200, 1, generator=draws) * 3
x = torch.rand(200, 20, generator=draws) * 10 - 5
y = amplitude * torch.sin(x + phase)  # a row is a task: 10 points to adapt to, 10 to be measured on


def network():
    return nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))


def after_one_step(model, x, y):
    """The loss of one task on its last 10 points, after one gradient step on its first 10."""
    weights = dict(model.named_parameters())
    first = nn.functional.mse_loss(model(x[:10, None]), y[:10, None])
    gradients = torch.autograd.grad(first, list(weights.values()), create_graph=True)
    adapted = {name: w - INNER * g for (name, w), g in zip(weights.items(), gradients)}
    return nn.functional.mse_loss(functional_call(model, adapted, (x[10:, None],)), y[10:, None])


def loss(model, x, y):
    return torch.stack([after_one_step(model, *task) for task in zip(x, y)]).mean()
