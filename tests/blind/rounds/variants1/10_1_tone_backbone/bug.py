import math
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(33)


def tones(n, classes, low):
    y = torch.randint(0, classes, (n,))
    t = torch.arange(64) / 64
    phase = 2 * math.pi * torch.rand(n, 1)
    x = torch.sin(2 * math.pi * (low + y[:, None]) * t + phase)
    return (x + 0.8 * torch.randn(n, 64))[:, None], y


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv1d(1, 24, 15, padding=7), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(24, 32, 9, padding=4), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten())
        self.head = nn.Linear(32, classes)

    def forward(self, x):
        return self.head(self.backbone(x))


def accuracy(model, data):
    model.eval()
    with torch.no_grad():
        return (model(data[0]).argmax(1) == data[1]).float().mean().item()


def fit(model, data, valid, epochs, lr, tag):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    x, y = data
    for epoch in range(epochs):
        model.train()
        last = 0.0
        for idx in torch.randperm(len(x)).split(40):
            loss = F.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            last = loss.item()
    print(f"{tag}: last loss {last:.3f} train {accuracy(model, data):.3f} valid {accuracy(model, valid):.3f}")


model = Net(8)
source_valid = tones(400, 8, 2)
fit(model, tones(1600, 8, 2), source_valid, 5, 5e-3, "pretraining on eight tones")
source_head = model.head

# the features serve both tasks: only a new head is fitted to the second
model.backbone.requires_grad = False
model.head = nn.Linear(32, 4)
fit(model, tones(160, 4, 3), tones(400, 4, 3), 30, 2e-2, "second task")
model.head = source_head
print(f"first task with its own head: {accuracy(model, source_valid):.3f}")
