"""Used-car price model: categorical embeddings plus numeric features, log-price target."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(8)
rng = np.random.default_rng(8)
CARDINALITY = {"brand": 30, "model": 400, "region": 12, "fuel": 4}
EPOCHS, BATCH, LR = 12, 128, 1e-2


def listings(n):
    brand_effect = rng.normal(0, 0.35, 30)
    model_effect = rng.normal(0, 0.3, 400)
    region_effect = rng.normal(0, 0.08, 12)
    fuel_effect = np.array([0.0, 0.05, 0.15, 0.3])
    model = rng.integers(0, 400, n)
    brand = model % 30
    region, fuel = rng.integers(0, 12, n), rng.integers(0, 4, n)
    age, km = rng.uniform(0, 15, n), rng.gamma(3, 30, n)
    log_price = 10 - 0.11 * age - 0.002 * km + brand_effect[brand] + model_effect[model]
    log_price += region_effect[region] + fuel_effect[fuel] + rng.normal(0, 0.08, n)
    cats = np.stack([brand, model, region, fuel], 1)
    nums = np.stack([(age - 7.5) / 4.3, (km - 90) / 52], 1)
    return torch.tensor(cats), torch.tensor(nums, dtype=torch.float32), torch.tensor(log_price, dtype=torch.float32)


class PriceNet(nn.Module):
    def __init__(self, cardinality, n_numeric, width=32):
        super().__init__()
        tables = [nn.Embedding(n, min(4, n // 2)) for n in cardinality.values()]
        self.tables = nn.ModuleList(tables)
        n_in = sum(t.embedding_dim for t in tables) + n_numeric
        self.mlp = nn.Sequential(nn.Linear(n_in, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, cats, nums):
        parts = [table(cats[:, i]) for i, table in enumerate(self.tables)]
        return self.mlp(torch.cat(parts + [nums], dim=1)).squeeze(1)


cats, nums, y = listings(6000)
n_train = 4800
center = y[:n_train].mean()
train = TensorDataset(cats[:n_train], nums[:n_train], y[:n_train] - center)
loader = DataLoader(train, batch_size=BATCH, shuffle=True)
net = PriceNet(CARDINALITY, nums.shape[1])
optimizer = torch.optim.AdamW(net.parameters(), lr=LR, weight_decay=1e-3)
print("trainable parameters:", sum(p.numel() for p in net.parameters()))


def validate():
    net.eval()
    with torch.no_grad():
        pred = net(cats[n_train:], nums[n_train:]) + center
    true = y[n_train:]
    rmse = (pred - true).pow(2).mean().sqrt().item()
    mape = ((pred.exp() - true.exp()).abs() / true.exp()).mean().item()
    return rmse, mape


for epoch in range(EPOCHS):
    net.train()
    total = 0.0
    for c, x, target in loader:
        loss = nn.functional.mse_loss(net(c, x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(target)
    rmse, mape = validate()
    if epoch % 3 == 2:
        print(f"epoch {epoch:2d} train mse {total / n_train:.4f} val rmse {rmse:.3f} MAPE {100 * mape:.1f}%")
