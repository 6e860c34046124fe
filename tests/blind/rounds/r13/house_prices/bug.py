"""House price regression: mixed numeric and categorical columns, log-price target."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset, DataLoader


def make_table(n, seed):
    rng = np.random.default_rng(seed)
    area = rng.gamma(6, 20, n)
    rooms = np.clip(np.round(area / 28 + rng.normal(0, 0.8, n)), 1, 9)
    age = rng.uniform(0, 90, n)
    dist = rng.exponential(6, n)
    zone = rng.integers(0, 8, n)
    heat = rng.integers(0, 3, n)
    zone_effect = np.random.default_rng(0).normal(0, 0.3, 8)
    logp = (10.2 + 0.75 * np.log(area) + 0.05 * rooms - 0.006 * age + 0.00004 * age ** 2
            - 0.04 * dist + zone_effect[zone] + np.array([0, 0.05, 0.12])[heat] + rng.normal(0, 0.08, n))
    return np.stack([area, rooms, age, dist], 1), np.stack([zone, heat], 1), np.exp(logp)


class PriceNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.zone = nn.Embedding(8, 4)
        self.heat = nn.Embedding(3, 2)
        self.body = nn.Sequential(nn.Linear(10, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))

    def forward(self, num, cat):
        h = torch.cat([num, self.zone(cat[:, 0]), self.heat(cat[:, 1])], dim=1)
        return self.body(h)


def rmse_loss(pred, target):
    return torch.sqrt(((pred - target) ** 2).mean() + 1e-8)


def main():
    torch.manual_seed(0)
    num, cat, price = make_table(4000, 1)
    tnum, tcat, tprice = make_table(1000, 2)
    mu, sd = num.mean(0), num.std(0)
    y = np.log(price)
    ymu, ysd = y.mean(), y.std()
    to = lambda a: torch.as_tensor(a, dtype=torch.float32)
    ds = TensorDataset(to((num - mu) / sd), torch.as_tensor(cat), to((y - ymu) / ysd))
    loader = DataLoader(ds, batch_size=64, shuffle=True)
    model = PriceNet()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 16)
    for epoch in range(16):
        model.train()
        losses = []
        for n, c, t in loader:
            opt.zero_grad()
            loss = rmse_loss(model(n, c), t)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step()
        if epoch % 4 == 3:
            print(f"epoch {epoch + 1} train rmse {np.mean(losses):.4f}")
    model.eval()
    with torch.no_grad():
        out = model(to((tnum - mu) / sd), torch.as_tensor(tcat)).reshape(-1).numpy()
    pred = np.exp(out * ysd + ymu)
    print("final test MAPE", float(np.mean(np.abs(pred - tprice) / tprice)))


if __name__ == "__main__":
    main()
