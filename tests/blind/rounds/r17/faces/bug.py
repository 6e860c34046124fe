import math

import torch
from torch import nn

S = 24
torch.manual_seed(30)
yy, xx = torch.meshgrid(torch.linspace(-1, 1, S), torch.linspace(-1, 1, S), indexing="ij")


def render(ident):
    """One photo of a person: ident holds face width, eye distance, eye height, nose length, mouth width, mouth height, hairline, skin."""
    w, ed, eh, nl, mw, mh, hair, skin = ident.tolist()
    dx, dy, tilt = (0.06 * torch.randn(3)).tolist()
    u = (xx - dx) * math.cos(tilt) + (yy - dy) * math.sin(tilt)
    v = -(xx - dx) * math.sin(tilt) + (yy - dy) * math.cos(tilt)
    soft = lambda d: torch.sigmoid(14 * d)
    img = skin * soft(1 - (u / w) ** 2 - (v / 0.9) ** 2)
    img = img * (1 - 0.75 * soft(hair - v))
    img = img - 0.5 * soft(0.012 - (u.abs() - ed) ** 2 - (v - eh) ** 2 + 0.03) * (v < 0.4)
    img = img - 0.35 * soft(0.06 - u.abs()) * soft(nl - (v - 0.05).abs())
    smile = 0.1 * torch.randn(()).item()
    img = img - 0.5 * soft(0.07 - (v - mh + smile * u ** 2).abs()) * soft(mw - u.abs())
    light = 1 + 0.2 * torch.randn(()).item() * u + 0.1 * torch.randn(()).item()
    return img * light + 0.05 * torch.randn(S, S)


def people(n):
    lo = torch.tensor([.60, .22, -.30, .08, .15, .40, -.85, .60])
    hi = torch.tensor([.90, .45, -.05, .28, .42, .62, -.45, 1.0])
    return lo + (hi - lo) * torch.rand(n, 8)


def album(n_people, n_photos):
    ids = people(n_people)
    return torch.stack([torch.stack([render(i) for _ in range(n_photos)]) for i in ids]).unsqueeze(2)


class Embedder(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv2d(1, 12, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(24 * 36, dim))

    def forward(self, x):
        return nn.functional.normalize(self.f(x), dim=1)


def batch_hard(z, who, margin=0.3):
    dist = (2 - 2 * z @ z.T).clamp(min=1e-6).sqrt()
    same = who[:, None] == who[None, :]
    hardest_pos = (dist * same).max(1).values
    hardest_neg = (dist * ~same).min(1).values
    return nn.functional.softplus((hardest_pos - hardest_neg + margin) * 4).mean() / 4


@torch.no_grad()
def recall_at_1(net, photos):
    n, k = photos.shape[:2]
    z = net(photos.flatten(0, 1))
    who = torch.arange(n).repeat_interleave(k)
    sim = z @ z.T
    sim.fill_diagonal_(-2)
    return (who[sim.argmax(1)] == who).float().mean().item()


train, test = album(100, 10), album(60, 4)
net = Embedder()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
P, K = 14, 4
for step in range(1, 351):
    p = torch.randperm(len(train))[:P]
    x = torch.stack([train[i][torch.randperm(train.shape[1])[:K]] for i in p])
    loss = batch_hard(net(x.flatten(0, 1)), p.repeat_interleave(K))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.4f}")
print(f"recall@1 on new people {recall_at_1(net, test):.3f}")
