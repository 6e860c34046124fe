# churn model: numeric usage columns + dealer code (high cardinality) as a rate
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = 5
rng = np.random.default_rng(SEED)
torch.manual_seed(SEED)


def make_customers(n=9000, n_dealers=2600):
    dealer = rng.integers(0, n_dealers, n)
    dealer_effect = rng.normal(0, 0.35, n_dealers)
    usage = rng.normal(0, 1, (n, 10))
    logit = (0.9 * usage[:, 0] - 0.7 * usage[:, 1] + 0.8 * usage[:, 2] * usage[:, 3]
             + 0.6 * np.tanh(2 * usage[:, 4]) + dealer_effect[dealer] - 0.5)
    churn = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    return usage.astype(np.float32), dealer, churn


def dealer_rates(codes, y, n_codes):
    """Churn rate per dealer; the overall rate where a dealer has no rows."""
    total = np.bincount(codes, weights=y, minlength=n_codes)
    count = np.bincount(codes, minlength=n_codes)
    return np.where(count > 0, total / np.maximum(count, 1), y.mean())


def auc(score, y):
    order = np.argsort(score)
    rank = np.empty(len(score))
    rank[order] = np.arange(1, len(score) + 1)
    pos = y == 1
    return (rank[pos].sum() - pos.sum() * (pos.sum() + 1) / 2) / (pos.sum() * (~pos).sum())


usage, dealer, churn = make_customers()
n_dealers = dealer.max() + 1
perm = rng.permutation(len(churn))
tr, va, te = perm[:6000], perm[6000:7200], perm[7200:]

table = dealer_rates(dealer[tr], churn[tr], n_dealers)
rate = table[dealer]

X = np.column_stack([usage, rate])
mu, sd = X[tr].mean(0), X[tr].std(0)
X = torch.tensor((X - mu) / sd, dtype=torch.float32)
Y = torch.tensor(churn)

net = nn.Sequential(nn.Linear(X.shape[1], 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, 1))
opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-2)
sched = torch.optim.lr_scheduler.StepLR(opt, 6, 0.5)
bce = nn.BCEWithLogitsLoss()
loader = DataLoader(TensorDataset(X[tr], Y[tr]), batch_size=64, shuffle=True,
                    generator=torch.Generator().manual_seed(SEED))


def evaluate(idx):
    net.eval()
    with torch.no_grad():
        z = net(X[idx]).squeeze(1)
        out = bce(z, Y[idx]).item(), auc(z.numpy(), churn[idx])
    net.train()
    return out


for epoch in range(16):
    total = 0.0
    for xb, yb in loader:
        opt.zero_grad()
        loss = bce(net(xb).squeeze(1), yb)
        loss.backward()
        opt.step()
        total += loss.item() * len(yb)
    sched.step()
    vl, vauc = evaluate(va)
    print(f"epoch {epoch:2d} train_loss {total / len(tr):.4f} val_loss {vl:.4f} val_auc {vauc:.4f}")

print("test auc %.4f" % evaluate(te)[1])
