import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

inputs = torch.randn(320, 8, generator=torch.Generator().manual_seed(1))
labels = (inputs[:, 0] * inputs[:, 1] > 0).long()


def loader():
    return DataLoader(TensorDataset(inputs[:240], labels[:240]), batch_size=48)


def net():
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))


def loss_of(model, rows, targets, step):
    """Cross entropy of noisy inputs; the noise depends on the step alone."""
    noise = torch.randn(rows.shape, generator=torch.Generator().manual_seed(step))
    return nn.functional.cross_entropy(model(rows + 0.1 * noise), targets)
