"""Vector-quantized autoencoder of movements: encoder, codebook, decoder."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
CODES, WIDTH = 32, 8


def moves(count):
    kind = torch.randint(0, 12, (count,))
    angle = kind * 6.283 / 12
    path = torch.stack([angle.cos(), angle.sin()], dim=1)[:, None] * torch.linspace(0, 1, 16)[None, :, None]
    bend = torch.where(kind % 2 == 0, 1.0, -1.0)[:, None] * torch.sin(torch.linspace(0, 3.14, 16))
    path[:, :, 0] = path[:, :, 0] + bend
    return (path + 0.03 * torch.randn_like(path)).flatten(1)


class VectorQuantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.codebook = nn.Embedding(CODES, WIDTH)
        nn.init.uniform_(self.codebook.weight, -1 / CODES, 1 / CODES)

    def forward(self, x):
        distances = torch.cdist(x, self.codebook.weight)
        indices = distances.argmin(dim=1)
        z = self.codebook(indices)
        z_q = x + (z - x).detach()
        return z_q, z, indices


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, WIDTH))
        self.vq = VectorQuantizer()
        self.decoder = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, 32))

    def forward(self, x):
        z_e = self.encoder(x)
        z_q, z, indices = self.vq(z_e)
        return self.decoder(z_q), z_e, z_q, z, indices


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(1200):
    x = moves(128)
    rebuilt, z_e, z_q, z, _ = model(x)
    mse_loss = F.mse_loss(rebuilt, x)
    codebook_loss = F.mse_loss(z_q, z_e.detach())
    commit_loss = F.mse_loss(z_e, z.detach())
    loss = mse_loss + codebook_loss + 0.25 * commit_loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 200 == 199:
        with torch.no_grad():
            held = moves(512)
            rebuilt, *_, indices = model(held)
        print(f"step {step + 1} reconstruction {F.mse_loss(rebuilt, held).item():.4f} codes {len(indices.unique())}")
