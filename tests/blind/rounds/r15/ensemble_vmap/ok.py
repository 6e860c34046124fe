"""Deep ensemble trained in one go with torch.func; the spread gives the error bar."""
import copy
import torch
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap

MEMBERS = 8
NOISE = 0.1


def truth(x):
    return torch.sin(3 * x) + 0.4 * x


def observations(n, g):
    # two islands of measurements with a gap between them
    half = n // 2
    x = torch.cat([-1.6 + 0.9 * torch.rand(half, 1, generator=g), 0.7 + 0.9 * torch.rand(n - half, 1, generator=g)])
    return x, truth(x) + NOISE * torch.randn(n, 1, generator=g)


def member(number, base_seed=100):
    torch.manual_seed(base_seed + number)
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    with torch.no_grad():
        net[0].weight.mul_(3.0)
    return net


nets = [member(k) for k in range(MEMBERS)]
skeleton = copy.deepcopy(nets[0]).to("meta")
params, buffers = stack_module_state(nets)


def call(p, b, x):
    return functional_call(skeleton, (p, b), (x,))


def objective(p, b, x, y):
    return ((call(p, b, x) - y) ** 2).mean()


gradients = vmap(grad(objective), in_dims=(0, 0, None, None))
value = vmap(objective, in_dims=(0, 0, None, None))

gen = torch.Generator().manual_seed(3)
X, Y = observations(80, gen)
moment = {k: torch.zeros_like(v) for k, v in params.items()}
params = {k: v.detach() for k, v in params.items()}

for step in range(1500):
    gs = gradients(params, buffers, X, Y)
    for k in params:
        moment[k] = 0.9 * moment[k] + gs[k]
        params[k] = params[k] - 0.01 * moment[k]
    if step % 300 == 0:
        print(step, "mean train mse", round(value(params, buffers, X, Y).mean().item(), 4))

grid = torch.linspace(-1.8, 1.8, 300)[:, None]
out = vmap(call, in_dims=(0, 0, None))(params, buffers, grid)
mean, var = out.mean(0), out.var(0) + NOISE ** 2
target = truth(grid) + NOISE * torch.randn(300, 1, generator=gen)
nll = 0.5 * (torch.log(var) + (target - mean) ** 2 / var).mean()
inside = ((target - mean).abs() < 2 * var.sqrt()).float().mean()
print(f"rmse {((target - mean) ** 2).mean().sqrt():.3f}  coverage of 2 sigma {inside:.3f}")
print(f"predictive nll {nll:.4f}")
