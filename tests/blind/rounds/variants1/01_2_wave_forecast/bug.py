import math
import torch

gen = torch.Generator().manual_seed(3)


def series(n, length=40):
    freq = 0.1 + 0.4 * torch.rand(n, 1, generator=gen)
    phase = 2 * math.pi * torch.rand(n, 1, generator=gen)
    t = torch.arange(length).float()
    return torch.sin(freq * t + phase) + 0.02 * torch.randn(n, length, generator=gen)


def windows(s, w=12):
    u = s.unfold(1, w + 1, 3).reshape(-1, w + 1)
    return u[:, :w], u[:, w:]


x_tr, y_tr = windows(series(300))
x_va, y_va = windows(series(80))


def init(n_in, n_out):
    w = torch.randn(n_in, n_out, generator=gen) / math.sqrt(n_in)
    return w.requires_grad_(), torch.zeros(n_out, requires_grad=True)


w1, b1 = init(12, 48)
w2, b2 = init(48, 24)
w3, b3 = init(24, 1)
params = [w1, b1, w2, b2, w3, b3]


def forecast(x):
    h = torch.tanh(x @ w1 + b1)
    h = torch.tanh(h @ w2 + b2)
    return h @ w3 + b3


def mse(x, y):
    return ((forecast(x) - y) ** 2).mean()


lr, batch = 0.1, 128
for epoch in range(15):
    order = torch.randperm(len(x_tr), generator=gen)
    seen = 0.0
    for start in range(0, len(order), batch):
        idx = order[start:start + batch]
        loss = mse(x_tr[idx], y_tr[idx])
        loss.backward()
        with torch.no_grad():
            for p in params:
                p -= lr * p.grad
                p.grad.zero_
        seen += loss.item() * len(idx)
    with torch.no_grad():
        held = mse(x_va, y_va).item()
    print(f"epoch {epoch:2d} train {seen / len(order):.4f} held-out {held:.4f}")
