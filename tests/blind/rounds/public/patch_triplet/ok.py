"""Anomaly detection on a series: patch embeddings by a triplet loss, then the distance to a memory of normal patches."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(4)
SIZE = 32


def normal_patch(count):
    start = torch.rand(count, 1) * 6.28
    kind = torch.randint(0, 4, (count, 1)).float()
    return torch.sin(start + torch.arange(SIZE) * (0.2 + 0.15 * kind)) + 0.7 * torch.randn(count, SIZE), kind.flatten()


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, 16, 5, 2), nn.ReLU(), nn.Conv1d(16, 32, 5, 2), nn.ReLU(), nn.Flatten(),
                                 nn.Linear(160, 16))

    def forward(self, x):
        return F.normalize(self.net(x.unsqueeze(1)), dim=1)


def triplet(anchor, positive):
    sim = anchor @ positive.t()
    pos_sims = sim.diagonal()
    others = sim.clone()
    others.diagonal().fill_(float("inf"))
    neg_dists = 1 - others
    far_dists, _ = torch.max(neg_dists, dim=1)
    return F.relu((1 - pos_sims) - far_dists + 1.5).mean()


encoder = Encoder()
optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-3)

for step in range(600):
    patches, _ = normal_patch(64)
    shifted = torch.roll(patches, 1, dims=1) + 0.3 * torch.randn_like(patches)
    loss = triplet(encoder(patches), encoder(shifted))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 150 == 149:
        with torch.no_grad():
            bank, bank_kind = normal_patch(800)
            query, kind = normal_patch(400)
            near = (encoder(query) @ encoder(bank).t()).argmax(1)
            hits = (bank_kind[near] == kind).float().mean()
            pull = (encoder(query) @ encoder(torch.roll(query, 1, dims=1)).t()).diagonal().mean()
        print(f"step {step + 1} loss {loss.item():.4f} nearest of the same kind {hits.item():.3f} pair {pull.item():.3f}")
