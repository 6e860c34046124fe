import os
import tempfile

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(37)


def make(n):
    """Counts of events in a 10 x 10 map; the target is the strength of the drift across it."""
    drift = 2 * torch.rand(n, 1) - 1
    ramp = torch.linspace(-1, 1, 10).view(1, 1, 1, 10)
    rate = 20 + 12 * drift.view(n, 1, 1, 1) * ramp + 4 * torch.rand(n, 1, 10, 1)
    return torch.poisson(rate), drift


def network():
    return nn.Sequential(
        nn.Conv2d(1, 12, (3, 5)), nn.BatchNorm2d(12), nn.ReLU(),
        nn.Conv2d(12, 16, 3), nn.BatchNorm2d(16), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 1),
    )


def write(path, model):
    torch.save({name: p.detach().clone() for name, p in model.named_parameters()}, path)


def read(path, model):
    stored = torch.load(path, weights_only=True)
    slots = model.state_dict()
    with torch.no_grad():
        for name, value in stored.items():
            slots[name].copy_(value)
    return model


@torch.no_grad()
def r2(model, x, y):
    model.eval()
    return 1 - (F.mse_loss(model(x), y) / y.var(unbiased=False)).item()


train, valid, test = make(1500), make(400), make(600)
loader = DataLoader(TensorDataset(*train), batch_size=50, shuffle=True)
model = network()
opt = torch.optim.Adam(model.parameters(), lr=6e-3)
sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.05, total_iters=10 * len(loader))

with tempfile.TemporaryDirectory() as folder:
    path, best = os.path.join(folder, "best.pt"), -float("inf")
    for epoch in range(10):
        model.train()
        for x, y in loader:
            loss = F.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
        score = r2(model, *valid)
        if score > best:
            best = score
            write(path, model)
        print(f"epoch {epoch}  loss {loss.item():.4f}  valid R2 {score:.4f}")
    deployed = read(path, network())
print(f"best valid R2 {best:.4f}  deployed test R2 {r2(deployed, *test):.4f}")
