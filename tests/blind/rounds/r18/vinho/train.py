"""Quality grade (4..8) of white wine from lab values."""
import sys
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Table:
    def __init__(self, path):
        raw = np.genfromtxt(path, delimiter=";", names=True)
        self.names = [n for n in raw.dtype.names if n != "quality"]
        self.x = np.column_stack([raw[n] for n in self.names]).astype(np.float32)
        self.y = torch.from_numpy(raw["quality"].astype(np.int64) - 4)

    def scaled(self, mean, std):
        return torch.from_numpy((self.x - mean) / std)


class Grader(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.l1, self.l2, self.l3 = nn.Linear(d, 48), nn.Linear(48, 48), nn.Linear(48, 5)

    def forward(self, x):
        return self.l3(F.relu(self.l2(F.relu(self.l1(x)))))


folder = sys.argv[1].rstrip("/")
train, test = Table(f"{folder}/lab_train.csv"), Table(f"{folder}/lab_test.csv")
mean, std = train.x.mean(0), train.x.std(0)
X, XT = train.scaled(mean, std), test.scaled(mean, std)
torch.manual_seed(40)
net = Grader(X.shape[1])
opt = torch.optim.Adam(net.parameters(), lr=2e-3, weight_decay=1e-4)
for epoch in range(20):
    total = 0.0
    for i in torch.randperm(len(X)).split(64):
        loss = F.cross_entropy(net(X[i]), train.y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(i)
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1}: cross entropy {total / len(X):.3f}")
with torch.no_grad():
    p = net(XT).argmax(1)
print(f"test accuracy {(p == test.y).float().mean():.3f}, mean grade error {(p - test.y).abs().float().mean():.3f}")
