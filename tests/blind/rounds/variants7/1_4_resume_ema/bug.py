"""Glyph classifier with an exponential moving average of the weights, trained in two jobs."""
import argparse
import copy
import pathlib
import tempfile

import torch
import torch.nn.functional as F
from torch import nn


def glyphs(n, seed):
    g = torch.Generator().manual_seed(seed)
    label = torch.randint(0, 5, (n,), generator=g)
    yy, xx = torch.meshgrid(torch.arange(12.), torch.arange(12.), indexing="ij")
    cx = 5.5 + torch.randn(n, 1, 1, generator=g)
    cy = 5.5 + torch.randn(n, 1, 1, generator=g)
    dx, dy = xx - cx, yy - cy
    r = (dx ** 2 + dy ** 2).sqrt()
    shapes = torch.stack([
        (r - 3).abs() < 0.9,
        (dx.abs() < 0.8) & (dy.abs() < 4),
        (dy.abs() < 0.8) & (dx.abs() < 4),
        ((dx - dy).abs() < 1.1) & (r < 4.5),
        ((dx + dy).abs() < 1.1) & (r < 4.5),
    ], dim=1).float()
    img = shapes[torch.arange(n), label] * (0.6 + 0.4 * torch.rand(n, 1, 1, generator=g))
    img = img + 0.55 * torch.randn(n, 12, 12, generator=g)
    return img.unsqueeze(1), label


class GlyphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 12, 3, padding=1)
        self.c2 = nn.Conv2d(12, 24, 3, padding=1)
        self.fc = nn.Linear(24 * 9, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        return self.fc(x.flatten(1))


class WeightAverage:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = copy.deepcopy(model).eval()
        for p in self.shadow.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.lerp_(p, 1 - self.decay)


def job(args, path, x, y, epochs, seed):
    torch.manual_seed(seed)
    model = GlyphNet()
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    ema = WeightAverage(model, args.decay)
    start = 0
    if path.exists():
        ck = torch.load(path, weights_only=True)
        model.load_state_dict(ck["model"])
        opt.load_state_dict(ck["opt"])
        start = ck["epoch"]
    for epoch in range(start, start + epochs):
        model.train()
        running = 0.0
        for idx in torch.randperm(len(x)).split(args.batch):
            loss = F.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            ema.update(model)
            running += loss.item() * len(idx)
        print(f"epoch {epoch:2d}  loss {running / len(x):.4f}")
    torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "ema": ema.shadow.state_dict(),
                "epoch": start + epochs}, path)
    return ema.shadow


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=0.02)
    ap.add_argument("--decay", type=float, default=0.998)
    ap.add_argument("--batch", type=int, default=32)
    args = ap.parse_args()
    x, y = glyphs(2400, seed=1)
    xt, yt = glyphs(1000, seed=2)
    m, s = x.mean(), x.std()
    x, xt = (x - m) / s, (xt - m) / s
    with tempfile.TemporaryDirectory() as tmp:
        path = pathlib.Path(tmp) / "job.pt"
        job(args, path, x, y, epochs=14, seed=0)
        averaged = job(args, path, x, y, epochs=2, seed=1)
    with torch.no_grad():
        acc = (averaged(xt).argmax(1) == yt).float().mean().item()
    print(f"test_acc={acc:.4f}")


if __name__ == "__main__":
    main()
