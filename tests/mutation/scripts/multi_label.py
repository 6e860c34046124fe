"""Several labels per sample, BCE with logits, gradients accumulated over four batches."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)
x_all = torch.randn(512, 20)
y_all = (x_all @ torch.randn(20, 5) + 0.2 * torch.randn(512, 5) > 0).float()
train = DataLoader(TensorDataset(x_all[:384], y_all[:384]), batch_size=16, shuffle=True)
valid = DataLoader(TensorDataset(x_all[384:], y_all[384:]), batch_size=64)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(64, 5)

    def forward(self, x):
        features = self.encoder(x)
        return self.head(features)


model = Tagger()
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
criterion = nn.BCEWithLogitsLoss()
accumulate = 4
for epoch in range(19):
    model.train()
    optimizer.zero_grad()
    for i, (x, y) in enumerate(train):
        logits = model(x)
        loss = criterion(logits, y) / accumulate
        loss.backward()
        if (i + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    hits = 0
    with torch.no_grad():
        for x, y in valid:
            hits += ((model(x) > 0) == y.bool()).all(1).sum().item()
