import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(31)
WINDOW = 16


def load_series(n):
    """Two coupled noisy oscillators, only the first one is observed."""
    state = torch.tensor([1.0, 0.0, 0.5, -0.5])
    c1, s1, c2, s2 = 0.90, 0.42, 0.70, 0.68
    turn = torch.tensor([[c1, -s1, 0.0, 0.0], [s1, c1, 0.15, 0.0], [0.0, 0.0, c2, -s2], [0.0, 0.0, s2, c2]])
    kicks = 0.25 * torch.randn(n, 4)
    out = []
    for k in kicks:
        state = 0.99 * (turn @ state) + k
        out.append(state[1])
    s = torch.stack(out)
    return s / s[: int(0.7 * n)].std()


def frame(series):
    x = series.unfold(0, WINDOW, 1)
    y = series[WINDOW:]
    return x[:-1], y


class Recurrent(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.cell = nn.GRUCell(1, width)
        self.read = nn.Linear(width, 1)

    def forward(self, x):
        h = x.new_zeros(len(x), self.cell.hidden_size)
        for value in x.unbind(1):
            h = self.cell(value.unsqueeze(1), h)
        return self.read(h).squeeze(1)


def fit(model, x, y, epochs, lr, accumulate=2):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(epochs):
        model.train()
        parts = torch.randperm(len(x)).split(50)
        for k, rows in enumerate(parts, start=1):
            loss = F.mse_loss(model(x[rows]), y[rows]) / accumulate
            loss.backward()
            if k % accumulate == 0 or k == len(parts):
                opt.step()
                opt.zero_grad()
        yield epoch


@torch.no_grad()
def skill(model, x, y):
    model.eval()
    return 1 - (F.mse_loss(model(x), y) / y.var(unbiased=False)).item()


series = load_series(3000)
cut = int(0.7 * len(series))
train_x, train_y = frame(series[:cut])
valid_x, valid_y = frame(series[cut:])
model = Recurrent()
for epoch in fit(model, train_x, train_y, epochs=7, lr=8e-3):
    print(f"epoch {epoch}  train R2 {skill(model, train_x, train_y):.4f}  valid R2 {skill(model, valid_x, valid_y):.4f}")
