"""Training that survives preemption: two sessions sharing one checkpoint file."""
import copy
import os
import tempfile
import torch
import torch.nn as nn


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.module = copy.deepcopy(model).eval()
        for p in self.module.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for e, p in zip(self.module.parameters(), model.parameters()):
            e.lerp_(p, 1 - self.decay)


def two_moons(n, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.rand(n, generator=g) * torch.pi
    y = torch.randint(0, 2, (n,), generator=g)
    x = torch.stack([torch.cos(t), torch.sin(t)], 1)
    x[y == 1] = torch.stack([1 - torch.cos(t), 0.5 - torch.sin(t)], 1)[y == 1]
    return x + 0.15 * torch.randn(n, 2, generator=g), y


def build():
    model = nn.Sequential(nn.Linear(2, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 2))
    return model, torch.optim.Adam(model.parameters(), lr=2e-3), EMA(model, decay=0.998)


def save(path, epoch, model, opt, ema):
    torch.save({"epoch": epoch, "model": model.state_dict(), "opt": opt.state_dict(),
                "ema": ema.module.state_dict(), "rng": torch.get_rng_state()}, path)


def resume(path, model, opt, ema):
    if not os.path.exists(path):
        return 0
    ckpt = torch.load(path)
    model.load_state_dict(ckpt["model"])
    opt.load_state_dict(ckpt["opt"])
    ema.module.load_state_dict(ckpt["ema"])
    torch.set_rng_state(ckpt["rng"])
    print(f"resumed after epoch {ckpt['epoch']}")
    return ckpt["epoch"] + 1


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    out = model(x)
    return nn.functional.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


def session(path, seed, last_epoch, data, val):
    torch.manual_seed(seed)
    model, opt, ema = build()
    start = resume(path, model, opt, ema)
    x, y = data
    for epoch in range(start, last_epoch):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(40):
            loss = nn.functional.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            ema.update(model)
            total += loss.item() * len(idx)
        save(path, epoch, model, opt, ema)
        print("epoch %2d train %.4f ema val loss %.4f acc %.3f" % (epoch, total / len(x), *evaluate(ema.module, *val)))
    return ema.module


if __name__ == "__main__":
    data, val = two_moons(1200, 1), two_moons(500, 2)
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "last.pt")
        session(path, 0, 22, data, val)
        final = session(path, 1, 28, data, val)
    print("final EMA model: val loss %.4f acc %.3f" % evaluate(final, *val))
