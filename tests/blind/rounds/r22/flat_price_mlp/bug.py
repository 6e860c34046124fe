import numpy as np
import torch
from torch import nn, optim

SEED = 5
rng = np.random.default_rng(SEED)
torch.manual_seed(SEED)

COLUMNS = ["area_m2", "rooms", "floor", "year_built", "km_to_center", "balcony", "lift", "energy_class"]


def make_listings(n=4000):
    area = rng.gamma(6.0, 12.0, n) + 18
    rooms = np.clip(np.round(area / 24 + rng.normal(0, 0.7, n)), 1, 8)
    floor = rng.integers(0, 12, n)
    year = rng.integers(1900, 2024, n)
    km = rng.exponential(5.0, n)
    balcony = rng.random(n) < 0.55
    lift = (rng.random(n) < 0.2 + 0.06 * floor)
    energy = rng.integers(0, 7, n)
    per_m2 = 4200 * np.exp(-km / 9) + 6.5 * (year - 1900) - 90 * energy + 250 * balcony
    per_m2 = per_m2 + np.where(lift, 25.0 * floor, -60.0 * floor)
    price = area * np.maximum(per_m2, 600) + 6000 * rooms
    price = price * np.exp(rng.normal(0, 0.08, n))
    table = np.stack([area, rooms, floor, year, km, balcony, lift, energy], 1).astype(np.float32)
    return table, np.log(price / 1000.0).astype(np.float32)


class PriceModel(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(n_in, 64), nn.SiLU(),
            nn.Linear(64, 64), nn.SiLU(),
        )
        self.out = nn.Linear(64, 1)

    def forward(self, table):
        return self.out(self.body(table))


def robust_loss(pred, target, delta=0.5):
    err = pred - target
    small = err.abs() <= delta
    return torch.where(small, 0.5 * err ** 2, delta * (err.abs() - 0.5 * delta)).mean()


def r_squared(pred, target):
    pred, target = pred.flatten(), target.flatten()
    return 1 - ((pred - target) ** 2).sum().item() / ((target - target.mean()) ** 2).sum().item()


def main():
    table, log_price = make_listings()
    order = rng.permutation(len(table))
    tr, va = order[:3200], order[3200:]
    mu, sd = table[tr].mean(0), table[tr].std(0)
    x = torch.from_numpy((table - mu) / sd)
    y = torch.from_numpy((log_price - log_price[tr].mean()) / log_price[tr].std())
    tr, va = torch.from_numpy(tr), torch.from_numpy(va)

    net = PriceModel(len(COLUMNS))
    opt = optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-4)
    for epoch in range(20):
        net.train()
        running = 0.0
        shuffled = tr[torch.randperm(len(tr))]
        for idx in shuffled.split(64):
            loss = robust_loss(net(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item() * len(idx)
        net.eval()
        with torch.no_grad():
            r2 = r_squared(net(x[va]), y[va])
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1}: train {running / len(tr):.4f}  val R2 {r2:.4f}")
    print(f"validation R2: {r2:.4f}")


if __name__ == "__main__":
    main()
