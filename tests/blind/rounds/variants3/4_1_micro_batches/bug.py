import itertools

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(9)
SEED, MICRO, ACCUM, STEPS_PER_EPOCH = 77, 16, 2, 6


def friedman(n):
    x = torch.rand(n, 10)
    y = (
        10 * torch.sin(torch.pi * x[:, 0] * x[:, 1])
        + 20 * (x[:, 2] - 0.5) ** 2
        + 10 * x[:, 3]
        + 5 * x[:, 4]
    )
    return x, ((y - 14.4) / 4.9 + 0.15 * torch.randn(n)).unsqueeze(1)


train = TensorDataset(*friedman(4000))
valid_x, valid_y = friedman(1000)


def epoch_batches():
    shuffler = torch.Generator().manual_seed(SEED)
    loader = DataLoader(train, batch_size=MICRO, shuffle=True, generator=shuffler)
    return itertools.islice(loader, ACCUM * STEPS_PER_EPOCH)


def build():
    layers, width = [], 10
    for out in (128, 128):
        layers += [nn.Linear(width, out), nn.ReLU()]
        width = out
    return nn.Sequential(*layers, nn.Linear(width, 1))


net = build()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=4e-3, total_steps=40 * STEPS_PER_EPOCH)

for epoch in range(40):
    net.train()
    opt.zero_grad()
    total = 0.0
    for i, (x, y) in enumerate(epoch_batches(), start=1):
        loss = F.smooth_l1_loss(net(x), y)
        (loss / ACCUM).backward()
        total += loss.item()
        if i % ACCUM == 0:
            opt.step()
            sched.step()
            opt.zero_grad()
    if epoch % 5 == 4:
        net.eval()
        with torch.no_grad():
            err = F.mse_loss(net(valid_x), valid_y).item()
        print(f"epoch {epoch + 1:2d}  train huber {total / i:.4f}  "
              f"valid mse {err:.4f}  (variance {valid_y.var().item():.3f})")
