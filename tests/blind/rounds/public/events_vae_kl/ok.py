"""Variational model of event sequences of different lengths: each event has a small mark vector."""

import torch
from torch import nn

torch.manual_seed(1)
STEPS, MARK, LATENT = 20, 6, 4


def sequences(count):
    phase = torch.rand(count, 1, 1) * 6.28
    speed = torch.rand(count, 1, 1) + 0.5
    time = torch.arange(STEPS).view(1, STEPS, 1) * 0.3
    marks = torch.sin(time * speed + phase + torch.arange(MARK) * 0.7)
    lengths = torch.randint(8, STEPS + 1, (count,))
    mask = (torch.arange(STEPS)[None] < lengths[:, None]).float()
    return marks * mask[..., None], mask


class MarkVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(MARK, 32), nn.ReLU(), nn.Linear(32, 2 * LATENT))
        self.decode = nn.Sequential(nn.Linear(LATENT, 32), nn.ReLU(), nn.Linear(32, MARK))

    def forward(self, marks):
        mean, log_var = self.encode(marks).chunk(2, dim=-1)
        z = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
        return self.decode(z), mean, log_var


def loss_of(model, marks, mask):
    rebuilt, mean, log_var = model(marks)
    recon = ((rebuilt - marks) ** 2).sum(-1) * mask / 0.05
    kl = (-0.5 * torch.sum(1 + log_var - mean.pow(2) - log_var.exp(), dim=-1)) * mask
    return (recon.sum() + kl.sum()) / mask.sum(), recon.sum() / mask.sum()


model = MarkVAE()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
marks, mask = sequences(1024)
held_out = sequences(256)

for epoch in range(15):
    for rows in torch.randperm(len(marks)).split(64):
        loss, _ = loss_of(model, marks[rows], mask[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        _, recon = loss_of(model, *held_out)
    print(f"epoch {epoch} loss {loss.item():.2f} held-out reconstruction {recon.item() * 0.05:.4f}")
