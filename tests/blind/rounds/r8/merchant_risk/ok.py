"""Card fraud scoring: amount / time / merchant features, small MLP, validated on later transactions."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SEED = 11
N_TX, N_MERCHANTS = 16000, 3000
EPOCHS, BATCH = 8, 128


def simulate(rng):
    merchant = rng.integers(0, N_MERCHANTS, N_TX)
    risk = rng.normal(0, 0.6, N_MERCHANTS)
    amount = rng.lognormal(3.5, 1.0, N_TX)
    hour = rng.integers(0, 24, N_TX)
    foreign = (rng.random(N_TX) < 0.15).astype(np.float32)
    night = ((hour < 5) | (hour > 22)).astype(np.float32)
    logit = -4.0 + risk[merchant] + 0.7 * (np.log(amount) - 3.5) + 1.2 * foreign + 1.0 * night
    y = (rng.random(N_TX) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    return merchant, amount, hour, foreign, y          # already in time order


def merchant_rates(merchant, y, prior_weight=2.0):
    base = y.mean()
    pos = np.bincount(merchant, weights=y, minlength=N_MERCHANTS)
    cnt = np.bincount(merchant, minlength=N_MERCHANTS)
    return (pos + prior_weight * base) / (cnt + prior_weight)


def roc_auc(score, y):
    order = np.argsort(score, kind="stable")
    rank = np.empty(len(score))
    rank[order] = np.arange(1, len(score) + 1)
    n1 = y.sum()
    n0 = len(y) - n1
    return (rank[y == 1].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)


class FraudNet(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, 32), nn.ReLU(), nn.Dropout(0.1),
                                 nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    merchant, amount, hour, foreign, y = simulate(rng)

    history = np.arange(0, 6000)
    train = np.arange(6000, 12500)
    valid = np.arange(12500, N_TX)

    rate = merchant_rates(merchant[history], y[history])
    feats = np.stack([np.log(amount), np.sin(hour / 24 * 2 * np.pi), np.cos(hour / 24 * 2 * np.pi),
                      foreign, np.log(rate[merchant])], axis=1).astype(np.float32)
    mu, sd = feats[train].mean(0), feats[train].std(0)
    feats = (feats - mu) / sd

    x_tr, y_tr = torch.from_numpy(feats[train]), torch.from_numpy(y[train])
    x_va, y_va = torch.from_numpy(feats[valid]), torch.from_numpy(y[valid])
    loader = DataLoader(TensorDataset(x_tr, y_tr), batch_size=BATCH, shuffle=True)

    model = FraudNet(x_tr.shape[1])
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    loss_fn = nn.BCEWithLogitsLoss()
    print(f"train {len(train)} tx ({y_tr.mean().item():.3%} fraud), valid {len(valid)} tx")
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for xb, yb in loader:
            loss = loss_fn(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(xb)
        model.eval()
        with torch.no_grad():
            logits = model(x_va)
            val_loss = loss_fn(logits, y_va).item()
        auc = roc_auc(logits.numpy(), y[valid])
        print(f"epoch {epoch}: train {total / len(train):.4f}  valid {val_loss:.4f}  valid AUC {auc:.4f}")


if __name__ == "__main__":
    main()
