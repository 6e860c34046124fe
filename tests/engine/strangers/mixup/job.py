import torch
from torch import nn

points = torch.rand(320, 2, generator=torch.Generator().manual_seed(1)) * 2 - 1
labels = (points.norm(dim=1) < 0.8).long()


def mix(inputs, targets, share, other):
    targets = nn.functional.one_hot(targets, 2).float()
    return share * inputs + (1 - share) * inputs[other], share * targets + (1 - share) * targets[other]


def drawn(step, count):
    """Shares and partners of one training step (0, 1, ...)."""
    draws = torch.Generator().manual_seed(step)
    return torch.rand(count, 1, generator=draws), torch.randperm(count, generator=draws)


def net():
    return nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
