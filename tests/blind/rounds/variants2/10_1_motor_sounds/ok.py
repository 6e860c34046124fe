import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(61)
MOTORS, SAMPLES = 8, 64
rate = torch.tensor([7.0, 3.0, 11.0, 5.0, 13.0, 4.0, 9.0, 6.0])


def recordings(n):
    motor = torch.randint(0, MOTORS, (n,))
    t = torch.linspace(0, 1, SAMPLES)
    phase = 6.283 * torch.rand(n, 2, 1)
    base = torch.sin(6.283 * rate[motor][:, None] * t + phase[:, 0])
    hum = 0.7 * torch.sin(6.283 * 2 * t + phase[:, 1])
    return (base + hum + 0.5 * torch.randn(n, SAMPLES)).unsqueeze(1), motor


class Ear(nn.Module):
    def __init__(self):
        super().__init__()
        self.filters = nn.Conv1d(1, 24, 17, stride=2, padding=8)
        self.second = nn.Conv1d(24, 24, 5, padding=2)
        self.head = nn.Linear(48, MOTORS)

    def forward(self, x):
        h = F.relu(self.second(F.relu(self.filters(x))))
        return self.head(torch.cat([h.mean(2), h.amax(2)], dim=1))


def criterion(scores, motor):
    return F.cross_entropy(scores, motor)


def one_epoch(model, optimizer, x, y, size):
    model.train()
    total = 0.0
    for rows in torch.randperm(len(x)).split(size):
        optimizer.zero_grad()
        loss = criterion(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        total += loss.item() * len(rows)
    return total / len(x)


def main():
    x, y = recordings(1200)
    x_val, y_val = recordings(400)
    model = Ear()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(8):
        loss = one_epoch(model, optimizer, x, y, 32)
        model.eval()
        with torch.no_grad():
            accuracy = (model(x_val).argmax(1) == y_val).float().mean().item()
        print(f"epoch {epoch} loss {loss:.4f} val accuracy {accuracy:.3f}")


main()
