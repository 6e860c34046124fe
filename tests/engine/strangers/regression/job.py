import torch
from torch import nn


def splits():
    draws = torch.Generator().manual_seed(0)
    inputs = torch.rand(300, 3, generator=draws) * 2 - 1
    values = (inputs.prod(1) + inputs[:, 0].sin() + 0.05 * torch.randn(300, generator=draws)).unsqueeze(1)
    return (inputs[:240], values[:240]), (inputs[240:], values[240:])


def net(hidden):
    return nn.Sequential(nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, 1))
