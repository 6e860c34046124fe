"""Display-ads click model: embedding + cross network, trained on a thinned log of non-clicks."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 3
KEEP_NEG = 0.15          # share of non-clicks kept for training
CARD = [40, 25, 60, 12]  # publisher, campaign, user segment, device
N_DAYS = 5
ROWS_PER_DAY = 12000
BATCH = 512
EPOCHS = 5

torch.manual_seed(SEED)


def make_log():
    effects = [torch.randn(c) * 0.6 for c in CARD]
    cross = torch.randn(CARD[0], CARD[1]) * 0.4
    n = N_DAYS * ROWS_PER_DAY
    cats = torch.stack([torch.randint(c, (n,)) for c in CARD], dim=1)
    recency = torch.rand(n, 1)
    logit = math.log(0.055) + sum(e[cats[:, i]] for i, e in enumerate(effects))
    logit = logit + cross[cats[:, 0], cats[:, 1]] - 0.8 * (recency[:, 0] - 0.5)
    click = (torch.rand(n) < torch.sigmoid(logit)).float()
    day = torch.arange(n) // ROWS_PER_DAY
    return cats, recency - 0.5, click, day


class CrossNet(nn.Module):
    def __init__(self, dim=6, layers=2):
        super().__init__()
        self.embs = nn.ModuleList(nn.Embedding(c, dim) for c in CARD)
        for e in self.embs:
            nn.init.normal_(e.weight, std=0.1)
        width = dim * len(CARD) + 1
        self.cross = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.deep = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Dropout(0.1))
        self.out = nn.Linear(width + 32, 1)

    def forward(self, cats, dense):
        x0 = torch.cat([e(cats[:, i]) for i, e in enumerate(self.embs)] + [dense], dim=1)
        x = x0
        for layer in self.cross:
            x = x0 * layer(x) + x
        return self.out(torch.cat([x, self.deep(x0)], dim=1)).squeeze(1)


def thin_negatives(idx, click):
    keep = (click[idx] == 1) | (torch.rand(len(idx)) < KEEP_NEG)
    return idx[keep]


def predict_ctr(model, cats, dense):
    model.eval()
    with torch.no_grad():
        chunks = [model(c, d) for c, d in zip(cats.split(4096), dense.split(4096))]
        logit = torch.cat(chunks)
        return torch.sigmoid(logit)


def report(model, cats, dense, click):
    p = predict_ctr(model, cats, dense)
    logloss = F.binary_cross_entropy(p, click).item()
    base = click.mean()
    entropy = -(base * base.log() + (1 - base) * (1 - base).log()).item()
    return logloss, 1 - logloss / entropy, p.mean().item(), base.item()


cats, dense, click, day = make_log()
all_rows = torch.arange(len(click))
train_rows = thin_negatives(all_rows[day < N_DAYS - 1], click)
test_rows = all_rows[day == N_DAYS - 1]
print(f"training rows {len(train_rows)}  test rows {len(test_rows)}")

model = CrossNet()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
for epoch in range(EPOCHS):
    model.train()
    perm = train_rows[torch.randperm(len(train_rows))]
    running = 0.0
    for rows in perm.split(BATCH):
        loss = F.binary_cross_entropy_with_logits(model(cats[rows], dense[rows]), click[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item() * len(rows)
    logloss, rig, mean_p, ctr = report(model, cats[test_rows], dense[test_rows], click[test_rows])
    print(f"epoch {epoch}  train loss {running / len(perm):.4f}  test logloss {logloss:.4f}  "
          f"rel. information gain {rig:+.3f}  mean pCTR {mean_p:.4f}  actual CTR {ctr:.4f}")

bid_value = 2.5
spend = bid_value * predict_ctr(model, cats[test_rows], dense[test_rows]).sum().item()
worth = bid_value * click[test_rows].sum().item()
print(f"bid volume / click value on test day: {spend / worth:.2f}")
