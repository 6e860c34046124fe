import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(91)
POINTS, RHYTHMS = 50, 4


def pulses(n):
    rhythm = torch.randint(0, RHYTHMS, (n,))
    x = 0.35 * torch.randn(n, 1, POINTS)
    for r, k in enumerate(rhythm.tolist()):
        at = int(torch.randint(2, 8, (1,)))
        gaps = [(9, 9, 9), (6, 12, 6), (12, 6, 12), (5, 5, 17)][k]
        for g in (0,) + gaps:
            at += g
            if at < POINTS - 1:
                x[r, 0, at - 1:at + 2] += torch.tensor([0.7, 1.6, 0.7])
    return x, rhythm


def project(inputs, outputs):
    layer = nn.Conv1d(inputs, outputs, kernel_size=1)
    nn.init.kaiming_normal_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class Residual(nn.Module):
    def __init__(self, inputs, outputs, reach):
        super().__init__()
        self.inputs, self.outputs = inputs, outputs
        self.one = nn.Conv1d(inputs, outputs, reach, padding=reach // 2)
        self.two = nn.Conv1d(outputs, outputs, reach, padding=reach // 2)

    def forward(self, x):
        h = self.two(F.relu(self.one(x)))
        short = x if self.inputs == self.outputs else project(self.inputs, self.outputs)(x)
        return F.relu(h + short)


class PulseNet(nn.Sequential):
    def __init__(self):
        super().__init__(Residual(1, 12, 5), nn.AvgPool1d(2), Residual(12, 24, 5), nn.AvgPool1d(2),
                         Residual(24, 24, 5), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(96, RHYTHMS))


def score(net, x, y):
    net.eval()
    with torch.inference_mode():
        out = net(x)
    return F.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


x_train, y_train = pulses(768)
x_val, y_val = pulses(200)
net = PulseNet()
optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
for epoch in range(8):
    net.train()
    for rows in torch.randperm(len(x_train)).split(32):
        loss = F.cross_entropy(net(x_train[rows]), y_train[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    held, accuracy = score(net, x_val, y_val)
    print(f"epoch {epoch} train {loss.item():.3f} val {held:.3f} accuracy {accuracy:.3f}")
