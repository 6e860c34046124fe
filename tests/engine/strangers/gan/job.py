import torch
import torch.nn.functional as F
from torch import nn

points = torch.randn(400, 2, generator=torch.Generator().manual_seed(0)) * 0.5 + torch.tensor([2.0, -1.0])


def networks():
    generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    return {"generator": generator, "critic": nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))}


def noise(count, seed):
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))


def critic_loss(critic, real, fake):
    return F.softplus(-critic(real)).mean() + F.softplus(critic(fake.detach())).mean()


def generator_loss(critic, fake):
    return F.softplus(-critic(fake)).mean()


def distance(generator, real):
    return (generator(noise(len(real), 10_000)).mean(0) - real.mean(0)).norm()
