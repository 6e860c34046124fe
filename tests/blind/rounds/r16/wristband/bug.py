import math
import argparse
import torch
import torch.nn as nn
from torch.utils.data import TensorDataset, DataLoader

GESTURES = ["circle_cw", "circle_ccw", "shake", "swipe"]


def synth_gesture(kind, steps=30):
    t = torch.linspace(0, 1, steps)
    phase = torch.rand(1) * 2 * math.pi
    speed = 2 + torch.rand(1)
    w = 2 * math.pi * speed * t + phase
    if kind == 0:
        a = torch.stack([torch.cos(w), torch.sin(w), 0.1 * torch.cos(w)], 1)
    elif kind == 1:
        a = torch.stack([torch.cos(w), -torch.sin(w), 0.1 * torch.cos(w)], 1)
    elif kind == 2:
        a = torch.stack([torch.sin(3 * w), 0.2 * torch.sin(w), 0.3 * torch.sin(3 * w)], 1)
    else:
        bump = torch.exp(-((t - 0.3 - 0.3 * torch.rand(1)) / 0.08) ** 2)
        a = torch.stack([2 * bump, 0.3 * torch.sin(w), 0.2 * bump], 1)
    return a + 0.25 * torch.randn(steps, 3)


def build(n):
    y = torch.randint(0, len(GESTURES), (n,))
    x = torch.stack([synth_gesture(int(k)) for k in y])
    return TensorDataset(x, y)


class GestureNet(nn.Module):
    """x: (batch, time, axis) -> class scores"""

    def __init__(self, hidden=32):
        super().__init__()
        self.rnn = nn.GRU(3, hidden, num_layers=1)
        self.head = nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, len(GESTURES)))

    def forward(self, x):
        seq, _ = self.rnn(x)
        return self.head(seq[:, -1])


def accuracy(model, loader):
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for x, y in loader:
            hits += (model(x).argmax(1) == y).sum().item()
            total += len(y)
    model.train()
    return hits / total


def run(args):
    torch.manual_seed(args.seed)
    train = DataLoader(build(1000), batch_size=args.batch_size, shuffle=True)
    test = DataLoader(build(400), batch_size=args.batch_size)
    model = GestureNet()
    optim = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        running = 0.0
        for x, y in train:
            optim.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optim.step()
            running += loss.item()
        print(f"epoch {epoch + 1}: loss {running / len(train):.3f} test acc {accuracy(model, test):.3f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=40)
    p.add_argument("--lr", type=float, default=5e-3)
    p.add_argument("--seed", type=int, default=3)
    run(p.parse_args())
