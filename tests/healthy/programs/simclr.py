"""SimCLR: NT-Xent over the batch, a kNN check in eval mode, cosine schedule per step."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(11)
CLASSES, DIM = 5, 24
CENTRES = torch.randn(CLASSES, DIM) * 1.5


class TwoViews(Dataset):
    def __init__(self, count):
        self.labels = torch.randint(0, CLASSES, (count,))
        self.data = CENTRES[self.labels] + 0.5 * torch.randn(count, DIM)

    def __len__(self):
        return len(self.data)

    def view(self, x):
        return x * (torch.rand(DIM) > 0.15) + 0.1 * torch.randn(DIM)

    def __getitem__(self, index):
        x = self.data[index]
        return self.view(x), self.view(x), self.labels[index]


class Net(nn.Module):
    def __init__(self, feature_dim=16):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(DIM, 64, bias=False), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))
        self.g = nn.Sequential(
            nn.Linear(32, 32, bias=False), nn.BatchNorm1d(32), nn.ReLU(inplace=True), nn.Linear(32, feature_dim)
        )

    def forward(self, x):
        feature = self.f(x)
        out = self.g(feature)
        return F.normalize(feature, dim=-1), F.normalize(out, dim=-1)


def nt_xent(out_1, out_2, temperature=0.5):
    n = out_1.shape[0]
    out = torch.cat([out_1, out_2], dim=0)
    sim = out @ out.t() / temperature
    sim = sim.masked_fill(torch.eye(2 * n, dtype=torch.bool), float("-inf"))
    targets = torch.cat([torch.arange(n, 2 * n), torch.arange(0, n)])
    return F.cross_entropy(sim, targets)


def train_epoch(net, loader, optimizer, scheduler):
    net.train()
    total, seen = 0.0, 0
    for pos_1, pos_2, _ in loader:
        _, out_1 = net(pos_1)
        _, out_2 = net(pos_2)
        loss = nt_xent(out_1, out_2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        total += loss.item() * len(pos_1)
        seen += len(pos_1)
    return total / seen


def knn(net, memory_set, test_set, k=5):
    net.eval()
    with torch.no_grad():
        bank, _ = net(memory_set.data)
        feature, _ = net(test_set.data)
        weight, index = (feature @ bank.t()).topk(k, dim=-1)
        votes = F.one_hot(memory_set.labels[index], CLASSES) * weight.unsqueeze(-1)
        return (votes.sum(1).argmax(1) == test_set.labels).float().mean().item()


train_set, test_set = TwoViews(384), TwoViews(96)
loader = DataLoader(train_set, batch_size=64, shuffle=True, drop_last=True)
net = Net()
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-6)
epochs = 5
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * len(loader))
for epoch in range(1, epochs + 1):
    loss = train_epoch(net, loader, optimizer, scheduler)
    print(f"epoch {epoch} loss {loss:.3f} kNN {knn(net, train_set, test_set):.2%}")
