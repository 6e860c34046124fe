"""Two instrument channels share one feature extractor.

Phase 1 trains backbone + head A on instrument A.
Phase 2 freezes the backbone and trains head B on instrument B.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
GEN = torch.Generator().manual_seed(0)
PROTO = torch.randn(6, 40, generator=GEN)


def spectra(n, gain, offset, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 6, (n,), generator=g)
    x = PROTO[y] + 2.4 * torch.randn(n, 40, generator=g)
    return gain * x + offset, y


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(40, 64), nn.BatchNorm1d(64), nn.ReLU(),
                                 nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU())

    def forward(self, x):
        return self.net(x)


@torch.no_grad()
def accuracy(backbone, head, x, y):
    backbone.eval()
    head.eval()
    return (head(backbone(x)).argmax(1) == y).float().mean().item()


def batches(x, y, size=64):
    for idx in torch.randperm(len(x)).split(size):
        if len(idx) == size:
            yield x[idx], y[idx]


def phase_one(backbone, head, data, epochs):
    opt = torch.optim.Adam([*backbone.parameters(), *head.parameters()], lr=2e-3)
    for epoch in range(epochs):
        backbone.train()
        head.train()
        total, steps = 0.0, 0
        for x, y in batches(*data):
            loss = F.cross_entropy(head(backbone(x)), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total, steps = total + loss.item(), steps + 1
        print(f"A epoch {epoch} loss {total / steps:.4f}")


def phase_two(backbone, head, data, epochs):
    for p in backbone.parameters():
        p.requires_grad_(False)
    opt = torch.optim.Adam(head.parameters(), lr=5e-3)
    for epoch in range(epochs):
        backbone.eval()
        head.train()
        total, steps = 0.0, 0
        for x, y in batches(*data):
            loss = F.cross_entropy(head(backbone(x)), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total, steps = total + loss.item(), steps + 1
        print(f"B epoch {epoch} loss {total / steps:.4f}")


def main():
    train_a, test_a = spectra(2000, 1.0, 0.0, 1), spectra(1000, 1.0, 0.0, 2)
    train_b, test_b = spectra(1500, 1.8, 3.0, 3), spectra(1000, 1.8, 3.0, 4)
    backbone, head_a, head_b = Backbone(), nn.Linear(32, 6), nn.Linear(32, 6)
    phase_one(backbone, head_a, train_a, epochs=6)
    print(f"task A before phase two: {accuracy(backbone, head_a, *test_a):.3f}")
    phase_two(backbone, head_b, train_b, epochs=8)
    acc_b = accuracy(backbone, head_b, *test_b)
    print(f"deployed: task A {accuracy(backbone, head_a, *test_a):.3f} task B {acc_b:.3f}")


if __name__ == "__main__":
    main()
