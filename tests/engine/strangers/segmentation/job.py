import torch
from torch import nn

CLASSES = 3


def splits():
    draws = torch.Generator().manual_seed(0)
    images = torch.randn(160, 1, 12, 12, generator=draws)
    smooth = nn.functional.avg_pool2d(images, 3, 1, 1)
    masks = torch.bucketize(smooth[:, 0], torch.tensor([-0.3, 0.4]))
    return (images[:120], masks[:120]), (images[120:], masks[120:])


def net():
    return nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, CLASSES, 1))
