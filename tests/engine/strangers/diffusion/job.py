import torch
from torch import nn

draws = torch.Generator().manual_seed(0)
angles = torch.rand(400, generator=draws) * 6.2832
points = torch.stack([angles.cos(), angles.sin()], 1) + 0.05 * torch.randn(400, 2, generator=draws)
STEPS = 20
kept = torch.linspace(0.99, 0.7, STEPS).cumprod(0)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time, self.net = nn.Embedding(STEPS, 16), nn.Sequential(nn.Linear(18, 64), nn.SiLU(), nn.Linear(64, 2))

    def forward(self, x, t):
        return self.net(torch.cat([x, self.time(t)], 1))


def loss(model, x, seed):
    draws = torch.Generator().manual_seed(seed)
    t, noise = torch.randint(STEPS, (len(x),), generator=draws), torch.randn(x.shape, generator=draws)
    share = kept[t][:, None]
    return nn.functional.mse_loss(model(share.sqrt() * x + (1 - share).sqrt() * noise, t), noise)
