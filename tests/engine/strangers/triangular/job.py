import torch
from torch import nn


def splits():
    inputs = torch.randn(300, 6, generator=torch.Generator().manual_seed(0))
    labels = (inputs[:, 0] * inputs[:, 1] > 0).long()
    return (inputs[:240], labels[:240]), (inputs[240:], labels[240:])


def net():
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))


def triangular(step, total_steps):
    half = total_steps / 2
    return 0.05 + 0.95 * (1 - abs(step - half) / half)
