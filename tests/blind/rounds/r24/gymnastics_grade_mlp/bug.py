# Grade (five classes, panel vote) of vault and floor routines from a judge-assist sensor vest
import functools
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

random.seed(3); np.random.seed(3); torch.manual_seed(3)

CHANNELS, GRADES = 90, 5
TRAIN, VALID = 800, 800
EPOCHS = 50


def routines(n, mix):
    form = np.random.randn(n, 6)
    x = form @ mix + 1.0 * np.random.randn(n, CHANNELS)
    merit = form[:, 0] - 0.6 * np.abs(form[:, 1]) + 0.5 * form[:, 2] + 0.5 * np.random.randn(n)
    grade = np.digitize(merit, [-1.6, -0.8, 0.0, 0.7])
    return torch.tensor(x, dtype=torch.float32), torch.tensor(grade)


def inspecting(fn):
    """Run fn with the network in inference mode and hand it back the way it came."""
    @functools.wraps(fn)
    def inner(net, *args, **kw):
        net.eval()
        before = net.training
        try:
            with torch.inference_mode():
                return fn(net, *args, **kw)
        finally:
            net.train(before)
    return inner


@inspecting
def log_loss(net, x, y):
    return F.cross_entropy(net(x), y).item()


@inspecting
def accuracy(net, x, y):
    return (net(x).argmax(1) == y).float().mean().item()


def build(width=160, p=0.6):
    layers, last = [nn.Dropout(0.3)], CHANNELS
    for w in (width, width):
        layers += [nn.Linear(last, w), nn.ReLU(), nn.Dropout(p)]
        last = w
    return nn.Sequential(*layers, nn.Linear(last, GRADES))


mix = np.random.randn(6, CHANNELS) * (np.random.rand(6, CHANNELS) < 0.4)
xt, yt = routines(TRAIN, mix)
xv, yv = routines(VALID, mix)
mu, sd = xt.mean(0), xt.std(0)
xt, xv = (xt - mu) / sd, (xv - mu) / sd

net = build()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS)

for epoch in range(EPOCHS):
    order = torch.randperm(TRAIN)
    run = []
    for idx in order.split(40):
        loss = F.cross_entropy(net(xt[idx]), yt[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        run.append(loss.item())
    sched.step()
    if epoch % 5 == 4:
        print(f"{epoch + 1:3d} | train log loss {np.mean(run):.3f} | valid log loss {log_loss(net, xv, yv):.3f}"
              f" | valid acc {accuracy(net, xv, yv):.3f}")
