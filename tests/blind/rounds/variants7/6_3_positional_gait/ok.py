"""Gesture recognition from sequences of hand poses with a small transformer encoder."""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

POSES, STEPS = 6, 12


def gestures(n, generator):
    order = torch.tensor([[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]])
    pose = torch.randn(POSES, 10, generator=torch.Generator().manual_seed(50))
    y = torch.randint(0, len(order), (n,), generator=generator)
    cut = torch.randint(-1, 2, (n, 2), generator=generator) + torch.tensor([4, 8])
    t = torch.arange(STEPS)
    phase = (t[None] >= cut[:, :1]).long() + (t[None] >= cut[:, 1:]).long()
    state = order[y].gather(1, phase)
    stray = torch.rand(n, STEPS, generator=generator) < 0.15
    state = torch.where(stray, torch.randint(0, POSES, (n, STEPS), generator=generator), state)
    return pose[state] + 0.7 * torch.randn(n, STEPS, 10, generator=generator), y


class PositionalEncoding(nn.Module):
    def __init__(self, dim, max_len=256):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        freq = torch.exp(torch.arange(0, dim, 2) * (-math.log(100.0) / dim))
        pe = torch.zeros(1, max_len, dim)
        pe[0, :, 0::2] = torch.sin(position * freq)
        pe[0, :, 1::2] = torch.cos(position * freq)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[:, :x.size(1)]


class GestureEncoder(nn.Module):
    def __init__(self, n_in=10, dim=32, classes=6):
        super().__init__()
        self.proj = nn.Linear(n_in, dim)
        self.position = PositionalEncoding(dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        h = self.encoder(self.position(self.proj(x)))
        return self.head(h.mean(dim=1))


def accuracy(model, loader):
    model.eval()
    hits = 0
    with torch.no_grad():
        for x, y in loader:
            hits += (model(x).argmax(-1) == y).sum().item()
    return hits / len(loader.dataset)


def main():
    torch.manual_seed(3)
    g = torch.Generator().manual_seed(3)
    x, y = gestures(1600, g)
    xt, yt = gestures(500, g)
    mean, std = x.mean((0, 1)), x.std((0, 1))
    train = DataLoader(TensorDataset((x - mean) / std, y), batch_size=40, shuffle=True)
    test = DataLoader(TensorDataset((xt - mean) / std, yt), batch_size=100)
    model = GestureEncoder()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(8):
        model.train()
        total = 0.0
        for xb, yb in train:
            loss = nn.functional.cross_entropy(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(xb)
        print(f"epoch {epoch} loss {total / len(x):.4f}")
    print(f"test_acc={accuracy(model, test):.4f}")


if __name__ == "__main__":
    main()
