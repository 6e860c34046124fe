import torch
from torch.func import functional_call, grad_and_value

torch.manual_seed(8)


def sensor_table(n):
    x = torch.randn(n, 8)
    w = torch.tensor([1.5, -2.0, 0.0, 0.7, 0.0, 1.0, 0.0, -0.5])
    y = x @ w + torch.tanh(2 * x[:, 0]) * x[:, 3] + 0.1 * torch.randn(n)
    gaps = torch.rand(n, 8) < 0.01
    return x.masked_fill(gaps, float("nan")), y


def tidy(x, y):
    complete = x.isfinite().all(dim=1)
    x = x[complete]
    y = y[complete]
    return x, y / 3


def partition(x, y, share, gen):
    order = torch.randperm(len(x), generator=gen)
    k = int(share * len(x))
    a, b = order[:k], order[k:]
    return (x[a], y[a]), (x[b], y[b])


net = torch.nn.Sequential(
    torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)
)
params = {k: v.detach().clone() for k, v in net.named_parameters()}


def objective(p, x, y):
    return (functional_call(net, p, (x,)).squeeze(1) - y).square().mean()


def momentum_update(p, g, velocity, lr, beta=0.9):
    velocity = {k: beta * velocity[k] + g[k] for k in p}
    return {k: p[k] - lr * velocity[k] for k in p}, velocity


def r2(p, x, y):
    with torch.no_grad():
        return 1 - objective(p, x, y).item() / y.var(unbiased=False).item()


gen = torch.Generator().manual_seed(0)
(train_x, train_y), (valid_x, valid_y) = partition(*tidy(*sensor_table(2600)), 0.8, gen)
velocity = {k: torch.zeros_like(v) for k, v in params.items()}
step_fn = grad_and_value(objective)

step = 0
for epoch in range(10):
    for rows in torch.randperm(len(train_x), generator=gen).split(64):
        g, value = step_fn(params, train_x[rows], train_y[rows])
        params, velocity = momentum_update(params, g, velocity, lr=0.03)
        step += 1
    print(f"epoch {epoch:2d} step {step:3d}  train R2 {r2(params, train_x, train_y):.4f}  "
          f"valid R2 {r2(params, valid_x, valid_y):.4f}")
