import torch
from torch import nn

torch.manual_seed(40)
CHANNELS = 12


def readings(n):
    """Channels drift by a fixed unknown phase; the target is a smooth function of the calibrated values."""
    z = torch.randn(n, CHANNELS)
    y = torch.tanh(z[:, :4].sum(1)) + 0.5 * torch.cos(2 * z[:, 4])
    spread = torch.logspace(-2, 2, CHANNELS)[torch.arange(CHANNELS).flip(0)]
    return z * spread + spread * 0.5, y[:, None] + 0.02 * torch.randn(n, 1)


class Calibrate(nn.Module):
    """A learned gain by channel, in logarithm, and a learned shift; the size follows the first batch."""

    def __init__(self):
        super().__init__()
        self.log_gain = None
        self.shift = None

    def forward(self, x):
        if self.log_gain is None:
            self.log_gain = nn.Parameter(torch.zeros(x.size(-1)))
            self.shift = nn.Parameter(torch.zeros(x.size(-1)))
        return torch.asinh(x * self.log_gain.exp()) + self.shift


class Model(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.cal = Calibrate()
        self.head = nn.Sequential(nn.Linear(CHANNELS, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, x):
        return self.head(self.cal(x))


def fit(model, opt, x, y, batch):
    model.train()
    losses = []
    for idx in torch.randperm(len(x)).split(batch):
        loss = nn.functional.mse_loss(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


x, y = readings(2600)
x_tr, y_tr, x_va, y_va = x[:2000], y[:2000], x[2000:], y[2000:]
model = Model()
opt = torch.optim.Adam([{"params": model.head.parameters(), "lr": 4e-3},
                        {"params": model.cal.parameters(), "lr": 4e-2}])
for epoch in range(15):
    train_loss = fit(model, opt, x_tr, y_tr, 100)
    model.eval()
    with torch.no_grad():
        held = nn.functional.mse_loss(model(x_va), y_va).item()
    if epoch % 3 == 2:
        print(f"epoch {epoch} train {train_loss:.4f} held-out {held:.4f} (variance {y_va.var():.3f})")
