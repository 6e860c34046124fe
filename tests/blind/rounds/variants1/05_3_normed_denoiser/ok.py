import math
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(31)


def clean_signals(n, length=64):
    t = torch.linspace(0, 1, length)
    out = torch.zeros(n, 1, length)
    for k in range(1, 4):
        amp = torch.randn(n, 1, 1)
        shift = 2 * math.pi * torch.rand(n, 1, 1)
        out += amp / k * torch.sin(2 * math.pi * k * t + shift)
    return out


def dataset(n):
    clean = clean_signals(n)
    return TensorDataset(clean + 0.5 * torch.randn_like(clean), clean)


class Denoiser(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.layers = nn.ModuleList([
            nn.Conv1d(1, ch, 9, padding=4),
            nn.Conv1d(ch, ch, 9, padding=4),
            nn.Conv1d(ch, 1, 9, padding=4)])

    def forward(self, x):
        for conv in self.layers[:-1]:
            x = torch.nn.functional.leaky_relu(conv(x), 0.1)
        return self.layers[-1](x)

    def reparametrize(self):
        for conv in self.layers:
            weight_norm(conv)
        return self


def evaluate(net, loader):
    net.eval()
    with torch.no_grad():
        errors = [mse_loss(net(noisy), clean).item() for noisy, clean in loader]
    net.train()
    return sum(errors) / len(errors)


train = DataLoader(dataset(1500), batch_size=50, shuffle=True)
valid = DataLoader(dataset(300), batch_size=100)
net = Denoiser()
net.reparametrize()
optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8 * len(train))
for epoch in range(8):
    total = 0.0
    for noisy, clean in train:
        loss = mse_loss(net(noisy), clean)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        total += loss.item()
    print(f"epoch {epoch} train {total / len(train):.4f} valid {evaluate(net, valid):.4f} (input 0.2500)")
