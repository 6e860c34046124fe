"""Chargeback risk per transaction; high-cardinality merchant id turned into a risk feature."""
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SEED, N, N_MERCHANTS = 23, 9000, 2500
torch.manual_seed(SEED)
rng = np.random.default_rng(SEED)


def simulate():
    merchant = rng.integers(0, N_MERCHANTS, N)
    merchant_risk = rng.normal(0, 0.5, N_MERCHANTS)
    amount, distance, device_age = rng.normal(size=(3, N))
    z = -1.6 + merchant_risk[merchant] + 0.8 * amount + 0.5 * distance - 0.5 * device_age
    label = (rng.random(N) < 1 / (1 + np.exp(-z))).astype(np.float32)
    return merchant, np.stack([amount, distance, device_age], 1).astype(np.float32), label


def smoothed_rate(merchant, label, prior, weight=4.0):
    count = np.bincount(merchant, minlength=N_MERCHANTS)
    total = np.bincount(merchant, weights=label, minlength=N_MERCHANTS)
    return (total + weight * prior) / (count + weight), count


def out_of_fold_rate(merchant, label, prior, folds=5):
    fold = rng.integers(0, folds, len(label))
    encoded = np.zeros(len(label))
    for k in range(folds):
        rate, _ = smoothed_rate(merchant[fold != k], label[fold != k], prior)
        encoded[fold == k] = rate[merchant[fold == k]]
    return encoded


def auc(score, label):
    rank = np.argsort(np.argsort(score)) + 1.0
    n_pos = label.sum()
    return (rank[label == 1].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * (len(label) - n_pos))


merchant, numeric, label = simulate()
fit_rows, val_rows, live_rows = np.arange(0, 5000), np.arange(5000, 7000), np.arange(7000, N)
prior = label[fit_rows].mean()
known = fit_rows
encoding = np.zeros(N)
encoding[known] = out_of_fold_rate(merchant[known], label[known], prior)
table, _ = smoothed_rate(merchant[known], label[known], prior)
rest = np.setdiff1d(np.arange(N), known)
encoding[rest] = table[merchant[rest]]

features = np.column_stack([numeric, encoding]).astype(np.float32)
mean, std = features[fit_rows].mean(0), features[fit_rows].std(0)
x, y = torch.tensor((features - mean) / std), torch.tensor(label)
loader = DataLoader(TensorDataset(x[fit_rows], y[fit_rows]), batch_size=128, shuffle=True)
model = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

for epoch in range(6):
    model.train()
    total = 0.0
    for xb, yb in loader:
        loss = F.binary_cross_entropy_with_logits(model(xb).squeeze(1), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(yb)
    model.eval()
    with torch.no_grad():
        score = model(x).squeeze(1).numpy()
    print(f"epoch {epoch} loss {total / len(fit_rows):.4f} val AUC {auc(score[val_rows], label[val_rows]):.3f}")
print(f"next month (scored live) AUC {auc(score[live_rows], label[live_rows]):.3f}")
