"""Embeddings of shop pictures: two photos of one product attract, all others repel (NT-Xent)."""
import torch
from torch import nn
import torch.nn.functional as F

SIDE = 16
YY, XX = torch.meshgrid(torch.arange(SIDE).float(), torch.arange(SIDE).float(), indexing="ij")


def photos(n, gen):
    """Two photos of each of n products: same form, print and colours; other background, light and position."""
    rand = lambda lo, hi: torch.rand(n, 1, 1, generator=gen) * (hi - lo) + lo
    kind = torch.randint(0, 3, (n, 1, 1), generator=gen)
    w, h, period, phase = rand(3, 6), rand(3, 6), rand(2.5, 6), rand(0, 6)
    upright = torch.rand(n, 1, 1, generator=gen) < 0.5
    body, ink = (torch.rand(n, 3, 1, 1, generator=gen) for _ in range(2))
    shots = []
    for _ in range(2):
        y, x = YY - 7.5 - rand(-2, 2), XX - 7.5 - rand(-2, 2)
        oval = (x / w) ** 2 + (y / h) ** 2 < 1
        box = (x.abs() < w) & (y.abs() < h)
        tri = (y.abs() < h) & (x.abs() < w * (y + h) / (2 * h))
        mask = torch.where(kind == 0, oval, torch.where(kind == 1, box, tri)).unsqueeze(1).float()
        lines = (torch.sin((torch.where(upright, x, y) + phase) * 6.283 / period) > 0.2).unsqueeze(1).float()
        item = body * (1 - lines) + ink * lines
        ground = torch.rand(n, 3, 1, 1, generator=gen)
        light = torch.rand(n, 1, 1, 1, generator=gen) * 0.8 + 0.5
        img = (mask * item + (1 - mask) * ground) * light
        shots.append(img + 0.05 * torch.randn(img.shape, generator=gen))
    return [(s - 0.4) / 0.25 for s in shots]


class Encoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU())
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(32 * 16, 96), nn.ReLU(), nn.Linear(96, dim))

    def forward(self, x):
        return F.normalize(self.head(self.conv(x)), dim=1)


def nt_xent(a, b, temperature=0.1):
    z = torch.stack([a, b], dim=1).flatten(0, 1)
    sim = (z @ z.T / temperature).fill_diagonal_(float("-inf"))
    partner = torch.arange(len(z)) ^ 1
    return F.cross_entropy(sim, partner)


@torch.no_grad()
def recall_at(model, first, second, k):
    model.eval()
    near = (model(first) @ model(second).T).topk(k, dim=1).indices
    model.train()
    return (near == torch.arange(len(first))[:, None]).any(1).float().mean().item()


gen = torch.Generator().manual_seed(50)
torch.manual_seed(50)
first, second = photos(2400, gen)
new_first, new_second = photos(300, gen)
model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(9):
    total, steps = 0.0, 0
    for ix in torch.randperm(len(first)).split(100):
        loss = nt_xent(model(first[ix]), model(second[ix]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total, steps = total + loss.item(), steps + 1
    print(f"epoch {epoch + 1}: nt-xent {total / steps:.4f}")
print(f"300 new products: recall@1 {recall_at(model, new_first, new_second, 1):.4f}, recall@5 {recall_at(model, new_first, new_second, 5):.4f}")
