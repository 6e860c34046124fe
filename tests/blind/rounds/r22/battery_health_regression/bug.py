import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def parse():
    p = argparse.ArgumentParser("state-of-health estimation from partial charge curves")
    p.add_argument("--epochs", type=int, default=25)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--delta", type=float, default=1.0)
    p.add_argument("--seed", type=int, default=3)
    return p.parse_args()


def simulate_cells(n_cells, cycles, gen):
    """Every cell ages at its own pace; one row = one partial charge (16 voltage points + 3 scalars)."""
    rows, soh, owner = [], [], []
    grid = torch.linspace(0.1, 0.9, 16)
    for c in range(n_cells):
        rate = 0.08 + 0.12 * torch.rand(1, generator=gen).item()
        knee = 0.5 + 0.4 * torch.rand(1, generator=gen).item()
        for k in range(cycles):
            age = k / cycles
            h = 1.0 - rate * age - 0.25 * max(0.0, age - knee)
            temp = 25 + 6 * torch.randn(1, generator=gen).item()
            crate = 0.5 + torch.rand(1, generator=gen).item()
            volt = 3.3 + 0.7 * grid + 0.12 * torch.tanh((grid - 0.5 * h) / 0.15) + 0.05 * crate * (2 - h)
            volt = volt + 0.002 * (25 - temp) / 10 + 0.004 * torch.randn(16, generator=gen)
            resist = 20 + 45 * (1 - h) + 1.5 * torch.randn(1, generator=gen).item()
            rows.append(torch.cat([volt, torch.tensor([temp, crate, resist])]))
            soh.append(100 * h)
            owner.append(c)
    return torch.stack(rows), torch.tensor(soh), torch.tensor(owner)


class SoHNet(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(n_in, 64), nn.SiLU(),
            nn.Linear(64, 64), nn.SiLU(),
        )
        self.head = nn.Linear(64, 1)

    def forward(self, x):
        return self.head(self.body(x))


def huber(pred, target, delta):
    err = pred - target
    small = err.abs() <= delta
    quad = 0.5 * err ** 2
    lin = delta * (err.abs() - 0.5 * delta)
    return torch.where(small, quad, lin).mean()


def main():
    args = parse()
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    x, soh, owner = simulate_cells(60, 60, gen)

    is_val = owner >= 48
    mu, sd = x[~is_val].mean(0), x[~is_val].std(0)
    x = (x - mu) / sd
    y_mu, y_sd = soh[~is_val].mean(), soh[~is_val].std()
    y = (soh - y_mu) / y_sd

    loader = DataLoader(TensorDataset(x[~is_val], y[~is_val]), batch_size=args.batch_size, shuffle=True)
    model = SoHNet(x.shape[1])
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)

    for epoch in range(1, args.epochs + 1):
        model.train()
        total = 0.0
        for xb, yb in loader:
            loss = huber(model(xb), yb, args.delta)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.item() * len(xb)
        sched.step()

        model.eval()
        with torch.no_grad():
            est = model(x[is_val]).flatten() * y_sd + y_mu
            mae = (est - soh[is_val]).abs().mean().item()
        if epoch % 5 == 0 or epoch == 1:
            print(f"epoch {epoch:3d}  train {total / len(loader.dataset):.4f}  val MAE {mae:.3f} %SoH")
    print(f"final validation MAE (%SoH) {mae:.4f}")


if __name__ == "__main__":
    main()
