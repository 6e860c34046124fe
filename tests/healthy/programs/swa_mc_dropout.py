"""Stochastic weight averaging with update_bn, and then uncertainty by Monte Carlo dropout."""

import torch
import torch.nn as nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(3, 64),
            nn.BatchNorm1d(64),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(64, 64),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(64, 1),
        )

    def forward(self, x):
        return self.layers(x).squeeze(-1)


def enable_dropout(model):
    for m in model.modules():
        if m.__class__.__name__.startswith("Dropout"):
            m.train()


def mc_predict(model, x, samples=10):
    model.eval()
    enable_dropout(model)
    with torch.no_grad():
        draws = torch.stack([model(x) for _ in range(samples)])
    model.eval()
    return draws.mean(0), draws.std(0)


def mean_squared_error(model, loader):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            total += (model(x) - y).pow(2).sum().item()
    return total / len(loader.dataset)


def main():
    torch.manual_seed(23)
    x = torch.rand(640, 3) * 2 - 1
    y = torch.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.05 * torch.randn(640)
    loader = DataLoader(TensorDataset(x[:512], y[:512]), batch_size=64, shuffle=True)
    test = DataLoader(TensorDataset(x[512:], y[512:]), batch_size=128)

    model = Regressor()
    loss_fn = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    swa_model = AveragedModel(model)
    epochs, swa_start = 8, 5
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=swa_start)
    swa_scheduler = SWALR(optimizer, swa_lr=0.02, anneal_epochs=2)

    for epoch in range(epochs):
        model.train()
        for inputs, target in loader:
            optimizer.zero_grad()
            loss_fn(model(inputs), target).backward()
            optimizer.step()
        if epoch >= swa_start:
            swa_model.update_parameters(model)
            swa_scheduler.step()
        else:
            scheduler.step()
        print(epoch, optimizer.param_groups[0]["lr"], mean_squared_error(model, test))

    update_bn(loader, swa_model)
    print("swa", mean_squared_error(swa_model, test))
    mean, std = mc_predict(model, x[512:])
    print("mc dropout", (mean - y[512:]).pow(2).mean().item(), std.mean().item())
    far, far_std = mc_predict(swa_model, torch.randn(64, 3) * 3)
    print("far away", far.mean().item(), far_std.mean().item())


if __name__ == "__main__":
    main()
