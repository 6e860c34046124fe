import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(8)


def tiles(n):
    kind = torch.randint(0, 8, (n,))
    shade = torch.randint(0, 3, (n,)).float() * 0.5 + 0.5
    patterns = torch.stack([torch.tensor([(k >> b) & 1 for b in range(3)]).float() for k in range(8)])
    rows = patterns[kind].repeat_interleave(2, dim=1)
    image = rows[:, :, None] * shade[:, None, None] + (1 - rows[:, :, None]) * 0.1
    image = image.expand(n, 6, 6) * torch.linspace(0.6, 1.4, 6)
    return (image + 0.05 * torch.randn(n, 6, 6)).flatten(1)


class Codebook(nn.Module):
    def __init__(self, entries, dim):
        super().__init__()
        self.entries = nn.Parameter(0.5 * torch.randn(entries, dim))

    def forward(self, z):
        distance = torch.cdist(z, self.entries)
        index = distance.argmin(dim=-1)
        picked = self.entries[index]
        pull = F.mse_loss(picked, z.detach())
        commit = F.mse_loss(z, picked.detach())
        return picked, pull, commit, index


class TileCoder(nn.Module):
    def __init__(self, slots=3, dim=4, entries=16):
        super().__init__()
        self.slots, self.dim = slots, dim
        self.encoder = nn.Sequential(nn.Linear(36, 64), nn.ReLU(), nn.Linear(64, slots * dim))
        self.book = Codebook(entries, dim)
        self.decoder = nn.Sequential(nn.Linear(slots * dim, 64), nn.ReLU(), nn.Linear(64, 36))

    def forward(self, x):
        z = self.encoder(x).view(-1, self.slots, self.dim)
        picked, pull, commit, index = self.book(z)
        return self.decoder(picked.flatten(1)), pull, commit, index


train, val = tiles(1024), tiles(256)
mean, std = train.mean(0), train.std(0)
train, val = (train - mean) / std, (val - mean) / std
coder = TileCoder()
opt = torch.optim.Adam(coder.parameters(), lr=3e-3)
for epoch in range(16):
    coder.train()
    for x in train[torch.randperm(len(train))].split(64):
        out, pull, commit, _ = coder(x)
        loss = F.mse_loss(out, x) + pull + 0.25 * commit
        opt.zero_grad()
        loss.backward()
        opt.step()
    coder.eval()
    with torch.no_grad():
        out, _, _, index = coder(val)
    if epoch % 3 == 0:
        print(f"epoch {epoch} val mse {F.mse_loss(out, val):.4f} entries used {index.unique().numel()}")
