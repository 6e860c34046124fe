"""Self-supervision without negatives: SimSiam (stop-gradient) and then BYOL (momentum target), with a linear probe."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

DIM, CLASSES, BATCH = 20, 4, 64


def make_data(count, centres):
    y = torch.randint(0, CLASSES, (count,))
    return centres[y] + 0.4 * torch.randn(count, DIM), y


def augment(x):
    keep = (torch.rand_like(x) > 0.2).float()
    return x * keep + 0.1 * torch.randn_like(x)


def projector(dim):
    return nn.Sequential(
        nn.Linear(DIM, dim), nn.BatchNorm1d(dim), nn.ReLU(), nn.Linear(dim, dim), nn.BatchNorm1d(dim, affine=False)
    )


def predictor(dim):
    return nn.Sequential(
        nn.Linear(dim, dim // 2), nn.BatchNorm1d(dim // 2), nn.ReLU(inplace=True), nn.Linear(dim // 2, dim)
    )


class SimSiam(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.encoder = projector(dim)
        self.predictor = predictor(dim)

    def forward(self, x1, x2):
        z1, z2 = self.encoder(x1), self.encoder(x2)
        return self.predictor(z1), self.predictor(z2), z1.detach(), z2.detach()


class BYOL(nn.Module):
    def __init__(self, dim=32, momentum=0.99):
        super().__init__()
        self.online = projector(dim)
        self.predictor = predictor(dim)
        self.target = copy.deepcopy(self.online)
        for p in self.target.parameters():
            p.requires_grad = False
        self.momentum = momentum

    @torch.no_grad()
    def update_target(self):
        for online, target in zip(self.online.parameters(), self.target.parameters(), strict=True):
            target.data = self.momentum * target.data + (1 - self.momentum) * online.data

    def forward(self, x1, x2):
        p1, p2 = self.predictor(self.online(x1)), self.predictor(self.online(x2))
        with torch.no_grad():
            t1, t2 = self.target(x1), self.target(x2)
        return (2 - 2 * F.cosine_similarity(p1, t2) + 2 - 2 * F.cosine_similarity(p2, t1)).mean()


def linear_probe(encoder, x, y):
    encoder.eval()
    with torch.no_grad():
        features = encoder(x)
    head = nn.Linear(features.shape[1], CLASSES)
    opt = torch.optim.SGD(head.parameters(), lr=0.5)
    for _ in range(20):
        opt.zero_grad()
        F.cross_entropy(head(features), y).backward()
        opt.step()
    encoder.train()
    return (head(features).argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(5)
    x, y = make_data(512, 2 * torch.randn(CLASSES, DIM))

    simsiam = SimSiam()
    criterion = nn.CosineSimilarity(dim=1)
    optimizer = torch.optim.SGD(simsiam.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for epoch in range(4):
        for idx in torch.randperm(len(x)).split(BATCH):
            p1, p2, z1, z2 = simsiam(augment(x[idx]), augment(x[idx]))
            loss = -(criterion(p1, z2).mean() + criterion(p2, z1).mean()) * 0.5
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"simsiam {epoch} {loss.item():.3f} probe {linear_probe(simsiam.encoder, x, y):.2f}")

    byol = BYOL()
    optimizer = torch.optim.Adam([p for p in byol.parameters() if p.requires_grad], lr=1e-3)
    for epoch in range(3):
        for idx in torch.randperm(len(x)).split(BATCH):
            loss = byol(augment(x[idx]), augment(x[idx]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            byol.update_target()
        print(f"byol {epoch} {loss.item():.3f} probe {linear_probe(byol.online, x, y):.2f}")


if __name__ == "__main__":
    main()
