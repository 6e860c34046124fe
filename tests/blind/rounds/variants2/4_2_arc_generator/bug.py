import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(2)
Z = 4


def real_points(n):
    a = 3.14159 * torch.rand(n)
    return torch.stack([2 * a.cos(), 2 * a.sin()], dim=1) + 0.08 * torch.randn(n, 2)


generator = nn.Sequential(nn.Linear(Z, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 2))
critic = nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.99))
opt_d = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.99))


def draw(n):
    return generator(torch.randn(n, Z)).data


def critic_step(n):
    fake = draw(n).detach()
    loss = F.softplus(-critic(real_points(n))).mean() + F.softplus(critic(fake)).mean()
    opt_d.zero_grad()
    loss.backward()
    opt_d.step()
    return loss.item()


def generator_step(n):
    points = draw(n)
    loss = F.softplus(-critic(points)).mean()
    opt_g.zero_grad()
    loss.backward()
    opt_g.step()
    return loss.item()


@torch.no_grad()
def sliced_distance(n=512, directions=32):
    """Average 1-D Wasserstein distance to a held-out sample."""
    rng = torch.get_rng_state()
    torch.manual_seed(99)
    u = F.normalize(torch.randn(2, directions), dim=0)
    generator.eval()
    a, b = (draw(n) @ u).sort(0).values, (real_points(n) @ u).sort(0).values
    generator.train()
    torch.set_rng_state(rng)
    return (a - b).abs().mean().item()


print(f"start distance {sliced_distance():.3f}")
for step in range(1, 401):
    d = critic_step(128)
    g = generator_step(128)
    if step % 80 == 0:
        print(f"step {step} critic {d:.3f} generator {g:.3f} distance {sliced_distance():.3f}")
