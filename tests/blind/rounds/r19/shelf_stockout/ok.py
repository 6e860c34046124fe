# %% [markdown]
# Will an article run out of stock next week?

# %%
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 21
torch.manual_seed(SEED)
rng = np.random.default_rng(SEED)


# %%
def load_articles(n):
    stock = rng.gamma(3, 12, n)
    weekly_sales = rng.gamma(2, 8, n)
    trend = rng.normal(0, 0.25, n)
    lead_time = rng.integers(2, 21, n)
    promo = rng.random(n) < 0.2
    on_order = rng.gamma(1.5, 8, n) * (rng.random(n) < 0.5)
    shelf = rng.normal(0, 1, (n, 24))
    expected = weekly_sales * (1 + trend) * (1 + 0.8 * promo)
    arriving = on_order * np.clip(1.2 - lead_time / 14, 0, 1)
    margin = (stock + arriving - expected) / (8 + 0.35 * expected)
    y = (margin + rng.normal(0, 0.5, n) < 0.4).astype(np.float32)
    x = np.column_stack([np.log1p(stock), np.log1p(weekly_sales), trend, lead_time, promo, np.log1p(on_order), shelf])
    return x.astype(np.float32), y


X, y = load_articles(4200)
n_train, n_val = 700, 500
x_train, y_train = X[:n_train], y[:n_train]
x_val, y_val = X[n_train:n_train + n_val], y[n_train:n_train + n_val]
x_test, y_test = X[n_train + n_val:], y[n_train + n_val:]
mu, sd = x_train.mean(0), x_train.std(0)
x_train, x_val, x_test = [torch.from_numpy((a - mu) / sd) for a in (x_train, x_val, x_test)]
y_train, y_val, y_test = [torch.from_numpy(a) for a in (y_train, y_val, y_test)]
print("share of stock-outs:", y_train.mean().item())


# %%
class StockNet(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(n_in, 256), nn.ReLU(),
            nn.Linear(256, 256), nn.ReLU(),
            nn.Linear(256, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def auc(score, label):
    order = score.argsort()
    rank = torch.empty_like(score)
    rank[order] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    pos = label == 1
    n_pos, n_neg = pos.sum(), (~pos).sum()
    return ((rank[pos].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)).item()


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    logits = model(x)
    return F.binary_cross_entropy_with_logits(logits, y).item(), auc(logits, y)


# %%
model = StockNet(x_train.shape[1])
opt = torch.optim.Adam(model.parameters(), lr=5e-4)
best_loss, best_epoch, best_state = float("inf"), -1, None

for epoch in range(60):
    model.train()
    perm = torch.randperm(n_train)
    for idx in perm.split(32):
        loss = F.binary_cross_entropy_with_logits(model(x_train[idx]), y_train[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    val_loss, val_auc = evaluate(model, x_val, y_val)
    if val_loss < best_loss:
        best_loss, best_epoch = val_loss, epoch
        best_state = copy.deepcopy(model.state_dict())
    if epoch % 10 == 0:
        print(f"epoch {epoch:3d}  val loss {val_loss:.4f}  val auc {val_auc:.4f}")

# %%
model.load_state_dict(best_state)
print(f"restored epoch {best_epoch} (val loss {best_loss:.4f})")
test_loss, test_auc = evaluate(model, x_test, y_test)
print(f"test loss {test_loss:.4f}  test auc {test_auc:.4f}")
