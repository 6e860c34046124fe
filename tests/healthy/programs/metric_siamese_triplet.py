"""Metric learning: a siamese network with contrastive loss, then triplets with hard negatives mined inside the
batch."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(4)
centres = torch.randn(6, 20) * 1.5


def draw(labels):
    return centres[labels] + torch.randn(len(labels), 20)


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.PReLU(), nn.Linear(64, 8))

    def forward_once(self, x):
        return self.net(x)

    def forward(self, a, b):
        return self.forward_once(a), self.forward_once(b)


class ContrastiveLoss(nn.Module):
    def __init__(self, margin=2.0):
        super().__init__()
        self.margin = margin

    def forward(self, out1, out2, label):
        distance = F.pairwise_distance(out1, out2)
        return torch.mean((1 - label) * distance.pow(2) + label * torch.clamp(self.margin - distance, min=0.0).pow(2))


def hardest(embeddings, labels):
    with torch.no_grad():
        distances = torch.cdist(embeddings, embeddings)
        same = labels[:, None] == labels[None, :]
        positive = distances.masked_fill(~same, -1.0).argmax(1)
        negative = distances.masked_fill(same, float("inf")).argmin(1)
    return positive, negative


net = Embedder()
criterion = ContrastiveLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(40):
    a, b = torch.randint(6, (64,)), torch.randint(6, (64,))
    b = torch.where(torch.rand(64) < 0.5, a, b)
    out1, out2 = net(draw(a), draw(b))
    loss = criterion(out1, out2, (a != b).float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("contrastive", loss.item())

anchor_net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 8))
optimizer = torch.optim.SGD(anchor_net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
triplet = nn.TripletMarginLoss(margin=0.3)
for step in range(60):
    labels = torch.arange(6).repeat_interleave(6)[torch.randperm(36)]
    embeddings = F.normalize(anchor_net(draw(labels)), dim=1)
    positive, negative = hardest(embeddings, labels)
    loss = triplet(embeddings, embeddings[positive], embeddings[negative])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()

anchor_net.eval()
with torch.no_grad():
    gallery, labels = torch.arange(6).repeat(10), torch.randint(6, (60,))
    near = torch.cdist(anchor_net(draw(labels)), anchor_net(draw(gallery))).argmin(1)
print("triplet", loss.item(), "nearest neighbour", (gallery[near] == labels).float().mean().item())
