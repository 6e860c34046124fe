import math

import torch
from torch import nn

torch.manual_seed(0)
T, STEPS, BATCH, LR = 60, 1200, 128, 2e-3
betas = torch.linspace(1e-3, 0.12, T)
alphas = 1 - betas
alpha_bar = alphas.cumprod(0)


def moons(n, gen):
    half = torch.rand(n, generator=gen) < 0.5
    ang = math.pi * torch.rand(n, generator=gen)
    upper = torch.stack([ang.cos(), ang.sin()], 1)
    lower = torch.stack([1 - ang.cos(), 0.5 - ang.sin()], 1)
    pts = torch.where(half[:, None], upper, lower) + 0.05 * torch.randn(n, 2, generator=gen)
    return (pts - torch.tensor([0.5, 0.25])) / torch.tensor([0.87, 0.5])


class Denoiser(nn.Module):
    def __init__(self, hidden=96, emb=16):
        super().__init__()
        self.register_buffer("freq", torch.exp(torch.linspace(0, 4, emb // 2)))
        self.net = nn.Sequential(
            nn.Linear(2 + emb, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 2)
        )

    def forward(self, x, t):
        phase = (t.float() / T)[:, None] * self.freq
        return self.net(torch.cat([x, phase.sin(), phase.cos()], 1))


def q_sample(x0, t, noise=None):
    if noise is None:
        noise = torch.randn_like(x0)
    ab = alpha_bar[t][:, None]
    return ab.sqrt() * x0 + (1 - ab).sqrt() * noise


def diffusion_loss(model, x0):
    t = torch.randint(0, T, (len(x0),))
    noise = torch.randn_like(x0)
    pred = model(q_sample(x0, t), t)
    return (pred - noise).pow(2).mean()


@torch.no_grad()
def sample(model, n):
    gen = torch.Generator().manual_seed(99)
    x = torch.randn(n, 2, generator=gen)
    for i in reversed(range(T)):
        eps = model(x, torch.full((n,), i))
        x = (x - betas[i] / (1 - alpha_bar[i]).sqrt() * eps) / alphas[i].sqrt()
        if i > 0:
            x = x + betas[i].sqrt() * torch.randn(n, 2, generator=gen)
    return x


def energy_distance(a, b):
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


gen = torch.Generator().manual_seed(1)
train = moons(4000, gen)
held_out = moons(1000, gen)
model = Denoiser()
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
model.train()
running = 0.0
for step in range(1, STEPS + 1):
    x0 = train[torch.randint(0, len(train), (BATCH,))]
    loss = diffusion_loss(model, x0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    running += loss.item()
    if step % 200 == 0:
        print(f"step {step} loss {running / 200:.4f}")
        running = 0.0
model.eval()
print(f"energy distance of samples to held-out data {energy_distance(sample(model, 1000), held_out):.4f}")
