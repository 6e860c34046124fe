import math
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(101)
EVENTS, LENGTH = 10, 10


def logs(n):
    """Label 1: event 0 happens before event 1 (each occurs exactly once)."""
    x = torch.randint(2, EVENTS, (n, LENGTH))
    places = torch.rand(n, LENGTH).argsort(1)[:, :2]
    x.scatter_(1, places, torch.tensor([[0, 1]]).expand(n, 2))
    return x, (places[:, 0] < places[:, 1]).float()


def wave_code(length, dim):
    where = torch.arange(length) // length
    rate = torch.exp(torch.linspace(0, math.log(8.0), dim // 2))
    angle = math.pi * where[:, None] * rate[None]
    return torch.cat([angle.sin(), angle.cos()], dim=1)


class OrderNet(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.event = nn.Embedding(EVENTS, dim)
        self.code = nn.Linear(dim, dim)
        self.attend = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Dropout(0.05), nn.Linear(64, dim))
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        h = self.event(x) + self.code(wave_code(x.size(1), self.code.in_features))
        h = self.norm1(h + self.attend(h, h, h, need_weights=False)[0])
        h = self.norm2(h + self.mlp(h))
        return self.out(h.mean(1)).squeeze(1)


x_train, y_train = logs(3000)
x_val, y_val = logs(500)
net = OrderNet()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
step = 0
for epoch in range(6):
    net.train()
    for rows in torch.randperm(len(x_train)).split(60):
        loss = F.binary_cross_entropy_with_logits(net(x_train[rows]), y_train[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
    net.eval()
    with torch.no_grad():
        accuracy = ((net(x_val) > 0) == (y_val > 0.5)).float().mean().item()
    print(f"step {step} loss {loss.item():.3f} val accuracy {accuracy:.3f}")
