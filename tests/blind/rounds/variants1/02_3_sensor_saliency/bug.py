import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Sensors(Dataset):
    """24 channels, of which six carry the class."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, 24, generator=g)
        s = self.x[:, :6]
        self.y = ((s[:, 0] * s[:, 1] + s[:, 2] - s[:, 3] > 0).long() + 2 * (s[:, 4] + s[:, 5] > 0).long())

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def saliency(model, x, y):
    """Mean absolute slope of the loss by channel."""
    model.zero_grad()
    probe = x.clone().requires_grad_()
    loss = F.cross_entropy(model(probe), y)
    slope, = torch.autograd.grad(loss, probe)
    return slope.abs().mean(0)


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        hits = torch.cat([model(x).argmax(1) == y for x, y in loader])
    model.train()
    return hits.float().mean().item()


def main():
    torch.manual_seed(8)
    train = DataLoader(Sensors(3000, 1), batch_size=100, shuffle=True)
    valid = DataLoader(Sensors(600, 2), batch_size=300)
    model = nn.Sequential(nn.Linear(24, 96), nn.GELU(), nn.LayerNorm(96), nn.Linear(96, 48), nn.GELU(), nn.Linear(48, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    importance = torch.zeros(24)
    for epoch in range(8):
        running = 0.0
        for x, y in train:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            importance = 0.9 * importance + 0.1 * saliency(model, x, y)
            optimizer.step()
            running += loss.item()
        top = importance.topk(6).indices.sort().values.tolist()
        print(f"epoch {epoch} loss {running / len(train):.4f} valid acc {accuracy(model, valid):.3f} channels {top}")


main()
