"""Models of sets: DeepSets on sums, and attention with a learnt seed that pools each set; samples stay apart, members
do not."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(13)
members = torch.rand(400, 10, 2)
largest = members[..., 0].amax(1, keepdim=True)
data = TensorDataset(members, largest + 0.1 * members[..., 1].sum(1, keepdim=True))
train_set, val_set = random_split(data, [320, 80])


class DeepSet(nn.Module):
    def __init__(self):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.rho = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.rho(self.phi(x).sum(dim=1))


class MAB(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.ln0, self.ln1 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, dim)

    def forward(self, q, k):
        h = self.ln0(q + self.attention(q, k, k, need_weights=False)[0])
        return self.ln1(h + F.relu(self.fc(h)))


class SetTransformer(nn.Module):
    def __init__(self, dim=32, inducing=4):
        super().__init__()
        self.embed = nn.Linear(2, dim)
        self.I = nn.Parameter(torch.empty(1, inducing, dim))
        self.S = nn.Parameter(torch.empty(1, 1, dim))
        nn.init.xavier_uniform_(self.I)
        nn.init.xavier_uniform_(self.S)
        self.mab0, self.mab1, self.pool = MAB(dim), MAB(dim), MAB(dim)
        self.head = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.embed(x)
        h = self.mab0(self.I.repeat(x.size(0), 1, 1), x)
        x = self.mab1(x, h)
        return self.head(self.pool(self.S.repeat(x.size(0), 1, 1), x)).squeeze(1)


for net in (DeepSet(), SetTransformer()):
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
    for epoch in range(3):
        net.train()
        for x, target in DataLoader(train_set, batch_size=32, shuffle=True):
            loss = F.mse_loss(net(x), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        net.eval()
        with torch.inference_mode():
            error = sum(
                F.l1_loss(net(x), t, reduction="sum").item() for x, t in DataLoader(val_set, batch_size=80)
            ) / len(val_set)
        print(f"{type(net).__name__} epoch {epoch}: train {loss.item():.4f}, validation error {error:.4f}")
