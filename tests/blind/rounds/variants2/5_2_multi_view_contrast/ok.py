import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(6)
SOURCES, RAW, VIEWS = 8, 20, 2
basis = torch.randn(SOURCES, RAW)


def scenes(n):
    kind = torch.randint(0, SOURCES, (n,))
    core = basis[kind] + 0.8 * torch.randn(n, RAW)
    gain = torch.exp(0.8 * torch.randn(n, VIEWS, 1))
    views = core[:, None] + 0.35 * torch.randn(n, VIEWS, RAW)
    return gain * views, kind


class Embedder(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(RAW, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.project = nn.Linear(64, dim)

    def features(self, x):
        return self.net(x)

    def forward(self, x):
        n, v, _ = x.shape
        z = self.project(self.features(x.flatten(0, 1))).view(n, v, -1)
        return F.normalize(z, dim=-1)


def info_nce(z, temperature=0.2):
    a, b = z.unbind(1)
    logits = a @ b.T / temperature
    own = torch.arange(len(a))
    return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


@torch.no_grad()
def match_rate(model, views):
    model.eval()
    a, b = model(views).unbind(1)
    rate = ((a @ b.T).argmax(1) == torch.arange(len(a))).float().mean().item()
    model.train()
    return rate


def run(model, train_views, val_views, steps=300, size=128):
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    with torch.no_grad():
        model.eval()
        before = info_nce(model(val_views)).item()
        model.train()
    print(f"start val loss {before:.3f}")
    for step in range(1, steps + 1):
        rows = torch.randint(0, len(train_views), (size,))
        loss = info_nce(model(train_views[rows]))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 60 == 0:
            print(f"step {step} loss {loss.item():.3f} matched views (val) {match_rate(model, val_views):.3f}")


train_views, _ = scenes(2000)
val_views, _ = scenes(200)
run(Embedder(), train_views, val_views)
