# exported from store_demand.ipynb
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SEED = 11
N_STORES, N_ITEMS, N_DAYS = 8, 25, 120
HORIZON = 20
BATCH = 256
EPOCHS = 10

random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)


# ---- sales panel -----------------------------------------------------------
def build_panel():
    rng = np.random.default_rng(SEED)
    store_lvl = rng.normal(0, 0.4, N_STORES)
    item_lvl = rng.normal(2.2, 0.8, N_ITEMS)
    item_season = rng.uniform(0, 2 * math.pi, N_ITEMS)
    elasticity = rng.uniform(0.8, 2.5, N_ITEMS)
    dow = np.array([0.0, -0.1, -0.1, 0.0, 0.2, 0.5, 0.35])
    sales = np.zeros((N_STORES, N_ITEMS, N_DAYS))
    price = rng.uniform(0.8, 1.2, (N_STORES, N_ITEMS, N_DAYS))
    promo = (rng.random((N_STORES, N_ITEMS, N_DAYS)) < 0.12).astype(float)
    for d in range(N_DAYS):
        mu = (store_lvl[:, None] + item_lvl[None, :] + dow[d % 7]
              + 0.3 * np.sin(2 * math.pi * d / 60 + item_season)[None, :]
              - elasticity[None, :] * np.log(price[:, :, d])
              + 0.6 * promo[:, :, d])
        sales[:, :, d] = rng.poisson(np.exp(mu))
    return sales, price, promo


def build_rows(sales, price, promo):
    log_sales = np.log1p(sales)
    cats, nums, ys, days = [], [], [], []
    for d in range(14, N_DAYS):
        for s in range(N_STORES):
            for i in range(N_ITEMS):
                hist = log_sales[s, i, d - 14:d]
                cats.append((s, i, d % 7))
                nums.append((price[s, i, d], promo[s, i, d], hist[-1], hist[-7],
                             hist[-7:].mean(), hist.mean()))
                ys.append(log_sales[s, i, d])
                days.append(d)
    return (np.array(cats), np.array(nums, dtype=np.float32),
            np.array(ys, dtype=np.float32), np.array(days))


sales, price, promo = build_panel()
cats, nums, ys, days = build_rows(sales, price, promo)
is_train = days < N_DAYS - HORIZON
mu, sd = nums[is_train].mean(0), nums[is_train].std(0) + 1e-6
nums = (nums - mu) / sd

t_cats = torch.as_tensor(cats)
t_nums = torch.as_tensor(nums)
t_ys = torch.as_tensor(ys)
# newer days count more
t_w = torch.as_tensor(np.exp((days - N_DAYS) / 90.0).astype(np.float32))
m = torch.as_tensor(is_train)

train_ds = TensorDataset(t_cats[m], t_nums[m], t_ys[m], t_w[m])
valid_ds = TensorDataset(t_cats[~m], t_nums[~m], t_ys[~m], t_w[~m])
train_dl = DataLoader(train_ds, batch_size=BATCH, shuffle=True, drop_last=True)
valid_dl = DataLoader(valid_ds, batch_size=1024)
print("rows", len(train_ds), len(valid_ds))


# ---- model -----------------------------------------------------------------
class DemandNet(nn.Module):
    def __init__(self, n_num, width=64):
        super().__init__()
        self.store = nn.Embedding(N_STORES, 4)
        self.item = nn.Embedding(N_ITEMS, 8)
        self.dow = nn.Embedding(7, 3)
        self.body = nn.Sequential(
            nn.Linear(15 + n_num, width), nn.ReLU(), nn.Dropout(0.05),
            nn.Linear(width, width), nn.ReLU())
        self.out = nn.Linear(width, 1)

    def forward(self, cat, num):
        e = torch.cat([self.store(cat[:, 0]), self.item(cat[:, 1]), self.dow(cat[:, 2]), num], dim=1)
        h = self.body(e)
        return self.out(h).squeeze(-1)


def weighted_mse(pred, target, weight):
    return (weight * (pred - target) ** 2).mean() / weight.mean()


def evaluate(model):
    model.eval()
    preds, trues = [], []
    with torch.no_grad():
        for cat, num, y, _ in valid_dl:
            preds.append(model(cat, num).numpy().ravel())
            trues.append(y.numpy())
    p, t = np.concatenate(preds), np.concatenate(trues)
    rmsle = float(np.sqrt(((p - t) ** 2).mean()))
    r2 = 1 - float(((p - t) ** 2).sum() / ((t - t.mean()) ** 2).sum())
    return rmsle, r2


model = DemandNet(nums.shape[1])
opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=EPOCHS)

for epoch in range(EPOCHS):
    model.train()
    running = 0.0
    for cat, num, y, w in train_dl:
        loss = weighted_mse(model(cat, num), y, w)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item()
    sched.step()
    rmsle, r2 = evaluate(model)
    print(f"epoch {epoch:2d}  train {running / len(train_dl):.4f}  valid rmsle {rmsle:.4f}  r2 {r2:.4f}")

print(f"final valid_r2={evaluate(model)[1]:.4f}")
