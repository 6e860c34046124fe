"""Friction of racing skis on snow, from test tracks in four ski tunnels and arenas.

Each update takes a handful of glide runs from every track, so that no track has more weight than another.
"""
import math

import torch

torch.manual_seed(40)
gen = torch.Generator().manual_seed(1968)

# snow temperature, humidity of the snow, grain size: ranges of the four tracks
TRACKS = {
    "tunnel_b": dict(temp=(-6.0, -2.0), wet=(0.0, 2.0), grain=(0.2, 0.5), runs=700),
    "plateau": dict(temp=(-18.0, -8.0), wet=(0.0, 0.5), grain=(0.1, 0.4), runs=600),
    "stadium": dict(temp=(-9.0, -0.5), wet=(0.0, 6.0), grain=(0.3, 1.2), runs=800),
    "glacier": dict(temp=(-2.0, 0.0), wet=(3.0, 12.0), grain=(0.6, 2.0), runs=500),
}


def uniform(n, low, high):
    return low + (high - low) * torch.rand(n, generator=gen)


def glide_runs(temp, wet, grain, runs):
    t, w, g = uniform(runs, *temp), uniform(runs, *wet), uniform(runs, *grain)
    rough = uniform(runs, 1.0, 9.0)       # base structure, micrometres
    load = uniform(runs, 380, 720)        # newton
    speed = uniform(runs, 2.0, 11.0)      # metres per second
    fluor = uniform(runs, 0.0, 1.0)       # hardness of the wax
    best_rough = 2.0 + 0.5 * w + 1.2 * g
    dry = 0.020 + 0.0022 * (-t) * (1.3 - 0.6 * fluor) * torch.exp(-speed / 14)
    suction = 0.0016 * w * (1 + 0.05 * speed)
    shape = 0.0011 * (rough - best_rough).square() / (1 + 0.2 * best_rough)
    mu = (dry + suction + shape) * (load / 550) ** -0.25
    mu = mu * (1 + 0.02 * torch.randn(runs, generator=gen))
    return torch.stack([t, w, g, rough, load, speed, fluor], 1), 1000 * mu


data = {name: glide_runs(**spec) for name, spec in TRACKS.items()}
train, val = {}, {}
for name, (x, y) in data.items():
    order = torch.randperm(len(y), generator=gen)
    cut = int(0.8 * len(y))
    train[name] = (x[order[:cut]], y[order[:cut]])
    val[name] = (x[order[cut:]], y[order[cut:]])

all_x = torch.cat([x for x, _ in train.values()])
all_y = torch.cat([y for _, y in train.values()])
mean, std = all_x.mean(0), all_x.std(0)
y_mean, y_std = all_y.mean(), all_y.std()


def layer(n_in, n_out):
    w = torch.randn(n_in, n_out) * math.sqrt(2.0 / n_in)
    return [w.requires_grad_(), torch.zeros(n_out, requires_grad=True)]


params = layer(7, 48) + layer(48, 48) + layer(48, 1)


def friction(x):
    h = (x - mean) / std
    h = torch.relu(h @ params[0] + params[1])
    h = torch.relu(h @ params[2] + params[3])
    return (h @ params[4] + params[5]).squeeze(1)


def val_errors():
    with torch.no_grad():
        return {name: (friction(x) * y_std + y_mean - y).abs().mean().item() for name, (x, y) in val.items()}


steps, per_track = 1800, 24
opt = torch.optim.Adam(params, lr=4e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
for step in range(1, steps + 1):
    slope = [torch.zeros_like(p) for p in params]
    running = 0.0
    for x, y in train.values():
        pick = torch.randint(len(y), (per_track,))
        loss = (friction(x[pick]) - (y[pick] - y_mean) / y_std).square().mean() / len(train)
        part = torch.autograd.grad(loss, params)
        slope = [s + g for s, g in zip(slope, part)]
        running += loss.item()
    for p, s in zip(params, slope):
        p.grad = s
    opt.step()
    sched.step()
    if step % 300 == 0:
        errors = val_errors()
        print(f"step {step}: loss {running:.4f}, val MAE {sum(errors.values()) / len(errors):.2f} (mu x 1000)")

for name, e in val_errors().items():
    spread = (val[name][1] - y_mean).abs().mean().item()
    print(f"{name:9s} val MAE {e:6.2f}   constant {spread:6.2f}")
print(f"mean val MAE {sum(val_errors().values()) / len(val):.3f}")
