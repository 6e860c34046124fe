"""Small conv net on drawn shapes with CPU autocast and a decaying step size."""
import argparse
import torch
from torch import nn
from torch.optim.lr_scheduler import ExponentialLR


def get_args():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--lr", type=float, default=0.04)
    ap.add_argument("--bs", type=int, default=48)
    ap.add_argument("--no-amp", action="store_true")
    return ap.parse_args()


def shapes(n, seed, s=16):
    g = torch.Generator().manual_seed(seed)
    kind = torch.randint(0, 4, (n,), generator=g)
    cy = torch.randint(5, s - 5, (n, 1, 1), generator=g)
    cx = torch.randint(5, s - 5, (n, 1, 1), generator=g)
    yy, xx = torch.arange(s).view(1, s, 1) - cy, torch.arange(s).view(1, 1, s) - cx
    disk = yy ** 2 + xx ** 2 <= 12
    square = (yy.abs() <= 3) & (xx.abs() <= 3)
    cross = ((yy.abs() <= 1) & (xx.abs() <= 4)) | ((xx.abs() <= 1) & (yy.abs() <= 4))
    ring = (yy ** 2 + xx ** 2 <= 14) & (yy ** 2 + xx ** 2 >= 5)
    stack = torch.stack([disk, square, cross, ring]).float()
    img = stack[kind, torch.arange(n)]
    return (img + 0.7 * torch.randn(n, s, s, generator=g)).unsqueeze(1), kind


class ShapeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.classify = nn.Linear(24 * 16, 4)

    def forward(self, x):
        return self.classify(self.features(x).flatten(1))


def evaluate(net, x, y):
    net.eval()
    with torch.no_grad():
        pred = torch.cat([net(c).argmax(1) for c in x.split(200)])
    net.train()
    return (pred == y).float().mean().item()


def main():
    args = get_args()
    torch.manual_seed(0)
    x, y = shapes(1440, 1)
    xt, yt = shapes(1000, 2)
    net = ShapeNet()
    opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)
    sched = ExponentialLR(opt, gamma=0.75)
    for epoch in range(args.epochs):
        seen = 0.0
        for rows in torch.randperm(len(x)).split(args.bs):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not args.no_amp):
                loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
            opt.zero_grad()
            loss.backward()
            opt.step()
            seen += loss.item() * len(rows)
            sched.step()
        print(f"epoch {epoch} loss {seen / len(x):.3f}")
    print(f"final test accuracy: {evaluate(net, xt, yt):.3f}")


if __name__ == "__main__":
    main()
