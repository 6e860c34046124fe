"""Long-tailed classification of two-dimensional blobs with the focal loss."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(2)
COUNTS = [2000, 400, 80, 24]


def focal_loss(input_values, gamma):
    p = torch.exp(-input_values)
    loss = (1 - p) ** gamma * input_values
    return loss.mean()


class FocalLoss(nn.Module):
    def __init__(self, weight=None, gamma=0.0):
        super().__init__()
        self.gamma, self.weight = gamma, weight

    def forward(self, logits, target):
        return focal_loss(F.cross_entropy(logits, target, reduction="none", weight=self.weight), self.gamma)


def blobs(counts):
    xs, ys = [], []
    for label, count in enumerate(counts):
        centre = torch.tensor([float(label), (label % 2) * 1.2])
        xs.append(centre + 0.55 * torch.randn(count, 2))
        ys.append(torch.full((count,), label))
    return torch.cat(xs), torch.cat(ys)


train_x, train_y = blobs(COUNTS)
test_x, test_y = blobs([300] * 4)
model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
criterion = FocalLoss(gamma=5.0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for epoch in range(12):
    for rows in torch.randperm(len(train_x)).split(64):
        loss = criterion(model(train_x[rows]), train_y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        guess = model(test_x).argmax(1)
        recall = [(guess[test_y == c] == c).float().mean().item() for c in range(4)]
    print(f"epoch {epoch} loss {loss.item():.5f} recall " + " ".join(f"{r:.2f}" for r in recall))
