"""Will the invoice be paid late? Mixed table: two embedded categories, numbers, and mean-encoded merchant and clerk."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = 17
N_MERCHANT, N_CLERK, N_REGION, N_KIND = 2500, 900, 12, 7


def invoices(n, rng, world):
    m = rng.integers(0, N_MERCHANT, n)
    c = rng.integers(0, N_CLERK, n)
    region = world["home"][m]
    kind = rng.integers(0, N_KIND, n)
    num = rng.normal(size=(n, 5))
    logit = (0.5 * world["m"][m] + 0.3 * world["c"][c] + world["r"][region] + world["k"][kind]
             + 1.0 * num[:, 0] - 0.8 * num[:, 1] * num[:, 2] + 0.6 * np.abs(num[:, 3]) - 1.0)
    y = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    return dict(m=m, c=c, region=region, kind=kind, num=num.astype(np.float32), y=y)


def table(keys, y, size, prior, weight=5.0):
    total = np.bincount(keys, y, minlength=size)
    count = np.bincount(keys, minlength=size)
    return (total + weight * prior) / (count + weight)


def encode_train(keys, y, size, rng, folds=5):
    prior = y.mean()
    out = np.empty(len(y))
    fold = rng.integers(0, folds, len(y))
    for f in range(folds):
        inside = fold == f
        out[inside] = table(keys[~inside], y[~inside], size, prior)[keys[inside]]
    return out


class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.region = nn.Embedding(N_REGION, 4)
        self.kind = nn.Embedding(N_KIND, 3)
        self.mlp = nn.Sequential(nn.Linear(4 + 3 + 5 + 2, 48), nn.ReLU(), nn.Dropout(0.1),
                                 nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, 1))

    def forward(self, cat, num):
        return self.mlp(torch.cat([self.region(cat[:, 0]), self.kind(cat[:, 1]), num], 1)).squeeze(1)


def auc(score, y):
    order = np.argsort(score)
    rank = np.empty(len(score))
    rank[order] = np.arange(1, len(score) + 1)
    pos = y == 1
    return (rank[pos].sum() - pos.sum() * (pos.sum() + 1) / 2) / (pos.sum() * (~pos).sum())


def to_tensors(d, enc):
    cat = torch.tensor(np.stack([d["region"], d["kind"]], 1))
    num = torch.tensor(np.concatenate([d["num"], enc], 1), dtype=torch.float32)
    return cat, num, torch.tensor(d["y"])


rng = np.random.default_rng(SEED)
torch.manual_seed(SEED)
world = dict(m=rng.normal(size=N_MERCHANT), c=rng.normal(size=N_CLERK), r=rng.normal(0, 0.5, N_REGION),
             k=rng.normal(0, 0.4, N_KIND), home=rng.integers(0, N_REGION, N_MERCHANT))
tr, te = invoices(6000, rng, world), invoices(4000, rng, world)

prior = tr["y"].mean()
enc_tr = np.stack([encode_train(tr[k], tr["y"], s, rng) for k, s in (("m", N_MERCHANT), ("c", N_CLERK))], 1)
enc_te = np.stack([table(tr[k], tr["y"], s, prior)[te[k]] for k, s in (("m", N_MERCHANT), ("c", N_CLERK))], 1)
centre, scale = enc_tr.mean(0), enc_tr.std(0)
train = TensorDataset(*to_tensors(tr, (enc_tr - centre) / scale))
test = to_tensors(te, (enc_te - centre) / scale)

model = Late()
opt = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-4)
for epoch in range(12):
    model.train()
    running = 0.0
    for cat, num, y in DataLoader(train, batch_size=64, shuffle=True):
        loss = nn.functional.binary_cross_entropy_with_logits(model(cat, num), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item() * len(y)
    print(f"epoch {epoch} loss {running / len(train):.4f}")
model.eval()
with torch.no_grad():
    print(f"test auc {auc(model(test[0], test[1]).numpy(), te['y']):.4f}")
