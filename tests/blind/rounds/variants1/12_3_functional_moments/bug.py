import torch
from torch.func import functional_call, grad_and_value
from torch import nn
from torch.nn import functional as F


def start(params):
    zeros = {k: torch.zeros_like(p) for k, p in params.items()}
    return {"m": zeros, "v": {k: z.clone() for k, z in zeros.items()}, "t": 0}


def advance(params, grads, state, lr, decay_m, decay_v, eps=1e-8):
    t = state["t"] + 1
    m = {k: decay_m * state["m"][k] + (1 - decay_m) * g for k, g in grads.items()}
    v = {k: decay_v * state["v"][k] + (1 - decay_v) * g * g for k, g in grads.items()}
    size = lr * (1 - decay_v ** t) ** 0.5 / (1 - decay_m ** t)
    new = {k: p - size * m[k] / (v[k].sqrt() + eps) for k, p in params.items()}
    return new, {"m": m, "v": v, "t": t}


def grid_worlds(n, size=7):
    """Images with two marked cells; the class is the direction from the first to the second."""
    a, b = torch.randint(0, size, (2, n, 2))
    b = torch.where((a == b).all(1, keepdim=True), (b + 1) % size, b)
    img = torch.zeros(n, 2, size, size)
    rows = torch.arange(n)
    img[rows, 0, a[:, 0], a[:, 1]] = 1
    img[rows, 1, b[:, 0], b[:, 1]] = 1
    d = b - a
    tall = d[:, 0].abs() >= d[:, 1].abs()
    label = torch.where(tall, (d[:, 0] > 0).long(), 2 + (d[:, 1] > 0).long())
    return img + 0.05 * torch.randn_like(img), label


torch.manual_seed(61)
net = nn.Sequential(nn.Flatten(), nn.Linear(98, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 4))
params = {k: p.detach().clone() for k, p in net.named_parameters()}
state = start(params)
LR, FAST, SLOW = 4e-3, 0.9, 0.999


def objective(params, x, y):
    return F.cross_entropy(functional_call(net, params, (x,)), y)


value_of = grad_and_value(objective)
x, y = grid_worlds(4000)
vx, vy = grid_worlds(800)
for epoch in range(8):
    total = 0.0
    for idx in torch.randperm(len(x)).split(100):
        grads, value = value_of(params, x[idx], y[idx])
        params, state = advance(params, grads, state, LR, SLOW, FAST)
        total += value.item()
    with torch.no_grad():
        guess = functional_call(net, params, (vx,)).argmax(1)
    print(f"epoch {epoch} loss {total * 100 / len(x):.4f} valid accuracy {(guess == vy).float().mean():.3f}")
