"""Regression of concrete strength; the averaged weights are what gets shipped."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def concrete(n, rng):
    cement = rng.uniform(150, 500, n)
    water = rng.normal(185, 18, n)
    slag = np.where(rng.random(n) < 0.5, 0, rng.uniform(20, 250, n))
    age = rng.choice([3, 7, 14, 28, 56, 90], n)
    plast = rng.gamma(2, 3, n)
    ratio = (cement + 0.7 * slag) / water
    strength = 13 * ratio * np.log1p(age) / 3.4 + 0.4 * plast + rng.normal(0, 2.0, n)
    return np.stack([cement, water, slag, np.log(age), plast], 1), strength


class Ema:
    def __init__(self, module, decay):
        self.decay = decay
        self.weights = {k: v.detach().clone() for k, v in module.state_dict().items()}

    @torch.no_grad()
    def update(self, module):
        for k, v in module.state_dict().items():
            self.weights[k].lerp_(v, 1 - self.decay)


class Regressor(nn.Module):
    def __init__(self, d, width=64):
        super().__init__()
        self.lift = nn.Linear(d, width)
        self.res = nn.ModuleList([nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(2)])
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        h = torch.relu(self.lift(x))
        for block in self.res:
            h = h + block(h)
        return self.head(h).squeeze(1)


def train(model, ema, loader, epochs):
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for xb, yb in loader:
            loss = nn.functional.mse_loss(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            ema.update(model)
            total += loss.item()
        if epoch % 5 == 0:
            print(f"epoch {epoch:2d} train mse {total / len(loader):.4f}")


def main():
    torch.manual_seed(9)
    x, y = concrete(4000, np.random.default_rng(9))
    xm, xs, ym, ys = x[:3000].mean(0), x[:3000].std(0), y[:3000].mean(), y[:3000].std()
    x = torch.tensor((x - xm) / xs, dtype=torch.float32)
    yn = torch.tensor((y - ym) / ys, dtype=torch.float32)
    loader = DataLoader(TensorDataset(x[:3000], yn[:3000]), batch_size=50, shuffle=True)
    model = Regressor(x.shape[1])
    ema = Ema(model, decay=0.99)
    train(model, ema, loader, epochs=14)
    final = Regressor(x.shape[1])
    final.load_state_dict(ema.weights)
    final.eval()
    with torch.no_grad():
        pred = final(x[3000:]).numpy() * ys + ym
    print(f"shipped model rmse [MPa]: {np.sqrt(np.mean((pred - y[3000:]) ** 2)):.3f}")


if __name__ == "__main__":
    main()
