"""One-day-ahead unit sales for a chain of shops with a dilated convolution network."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SHOPS, DAYS, VAL_DAYS, WINDOW = 30, 420, 84, 56


def simulate_sales(seed):
    rng = np.random.default_rng(seed)
    day = np.arange(DAYS)
    sales = np.zeros((SHOPS, DAYS))
    for s in range(SHOPS):
        base = rng.uniform(20, 80)
        week = 1 + 0.35 * np.sin(2 * np.pi * (day + rng.integers(7)) / 7)
        level = np.zeros(DAYS)
        for t in range(1, DAYS):
            level[t] = 0.9 * level[t - 1] + rng.normal(0, 0.12)
        sales[s] = rng.poisson(base * week * np.exp(level))
    return torch.tensor(np.log1p(sales), dtype=torch.float32)


class CausalBlock(nn.Module):
    def __init__(self, channels, dilation, kernel=3):
        super().__init__()
        self.pad = (kernel - 1) * dilation // 2
        self.conv = nn.Conv1d(channels, channels, kernel, dilation=dilation)

    def forward(self, x):
        h = self.conv(F.pad(x, (self.pad, self.pad)))
        return x + F.gelu(h)


class SalesTCN(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.stem = nn.Conv1d(1, channels, 1)
        self.blocks = nn.Sequential(*[CausalBlock(channels, d) for d in (1, 2, 4, 8)])
        self.head = nn.Conv1d(channels, 1, 1)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x))).squeeze(1)


def windows(series, start, stop):
    """Inputs are days t..t+W-1, targets the day after each of them."""
    xs, ys = [], []
    for t in range(start, stop - WINDOW, 7):
        xs.append(series[:, t:t + WINDOW])
        ys.append(series[:, t + 1:t + WINDOW + 1])
    return torch.cat(xs).unsqueeze(1), torch.cat(ys)


@torch.no_grad()
def next_day_error(model, series, first_day):
    """Forecast each day from the history that ends the evening before."""
    model.eval()
    errors = []
    for day in range(first_day, DAYS):
        history = series[:, day - WINDOW:day].unsqueeze(1)
        errors.append((model(history)[:, -1] - series[:, day]).abs())
    return torch.stack(errors).mean().item()


def main():
    torch.manual_seed(0)
    raw = simulate_sales(0)
    split = DAYS - VAL_DAYS
    mean, std = raw[:, :split].mean(1, keepdim=True), raw[:, :split].std(1, keepdim=True)
    series = (raw - mean) / std
    x_train, y_train = windows(series, 0, split)
    x_val, y_val = windows(series, split, DAYS)
    print("train windows", tuple(x_train.shape), "val windows", tuple(x_val.shape))

    model = SalesTCN()
    epochs, batch = 8, 64
    steps = epochs * ((len(x_train) + batch - 1) // batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x_train)).split(batch):
            loss = F.smooth_l1_loss(model(x_train[idx]), y_train[idx])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            val = (model(x_val) - y_val).abs().mean().item()
        print(f"epoch {epoch}  train {total / len(x_train):.4f}  val mae {val:.4f}")

    naive = (series[:, split:] - series[:, split - 7:-7]).abs().mean().item()
    print(f"next-day mae {next_day_error(model, series, split):.4f}  (same day last week {naive:.4f})")


if __name__ == "__main__":
    main()
