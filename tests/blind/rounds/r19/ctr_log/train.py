"""Click model trained on the impression log; validated on the following day."""
import csv
import logging
import pathlib
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
logger = logging.getLogger("ctr")

CATEGORICAL = ["hour", "site", "device", "ad_id", "position"]
LABEL = "click"


class FeatureStore:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.vocab = {}
        self.stats = None

    def _read(self, name):
        with open(self.folder / name, newline="") as f:
            rows = list(csv.DictReader(f))
        self.numeric = [c for c in rows[0] if c not in CATEGORICAL and c != LABEL]
        return rows

    def load(self, name, fit=False):
        rows = self._read(name)
        cats = np.zeros((len(rows), len(CATEGORICAL)), dtype=np.int64)
        for j, c in enumerate(CATEGORICAL):
            col = [r[c] for r in rows]
            if fit:
                self.vocab[c] = {v: k + 1 for k, v in enumerate(sorted(set(col)))}
            cats[:, j] = [self.vocab[c].get(v, 0) for v in col]
        nums = np.log1p(np.array([[float(r[c]) for c in self.numeric] for r in rows], dtype=np.float32))
        if fit:
            self.stats = nums.mean(0), nums.std(0) + 1e-6
        nums = (nums - self.stats[0]) / self.stats[1]
        y = np.array([float(r[LABEL]) for r in rows], dtype=np.float32)
        return TensorDataset(torch.from_numpy(cats), torch.from_numpy(nums), torch.from_numpy(y))


class DeepFM(nn.Module):
    def __init__(self, sizes, n_num, k=8):
        super().__init__()
        self.linear = nn.ModuleList(nn.Embedding(s + 1, 1) for s in sizes)
        self.factors = nn.ModuleList(nn.Embedding(s + 1, k) for s in sizes)
        for e in list(self.linear) + list(self.factors):
            nn.init.normal_(e.weight, std=0.05)
        self.deep = nn.Sequential(nn.Linear(k * len(sizes) + n_num, 64), nn.ReLU(), nn.Dropout(0.2),
                                  nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, cats, nums):
        first = sum(e(cats[:, j]) for j, e in enumerate(self.linear)).squeeze(1)
        v = torch.stack([e(cats[:, j]) for j, e in enumerate(self.factors)], 1)
        second = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(1)
        deep = self.deep(torch.cat([v.flatten(1), nums], 1)).squeeze(1)
        return first + second + deep


def roc_auc(scores, labels):
    order = np.argsort(scores)
    rank = np.empty(len(scores))
    rank[order] = np.arange(1, len(scores) + 1)
    p = labels > 0.5
    return float((rank[p].sum() - p.sum() * (p.sum() + 1) / 2) / (p.sum() * (~p).sum()))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    s, y = zip(*[(model(c, n), t) for c, n, t in loader])
    s, y = torch.cat(s), torch.cat(y)
    return roc_auc(s.numpy(), y.numpy()), nn.functional.binary_cross_entropy_with_logits(s, y).item()


def main(folder):
    torch.manual_seed(17)
    store = FeatureStore(folder)
    train, valid = store.load("train.csv", fit=True), store.load("valid.csv")
    logger.info("train %d valid %d numeric %s", len(train), len(valid), store.numeric)
    train_loader = DataLoader(train, batch_size=256, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=1000)
    model = DeepFM([len(store.vocab[c]) for c in CATEGORICAL], len(store.numeric))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 3e-3, epochs=6, steps_per_epoch=len(train_loader))
    for epoch in range(6):
        model.train()
        total = 0.0
        for cats, nums, y in train_loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(cats, nums), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item()
        auc, ll = evaluate(model, valid_loader)
        logger.info("epoch %d train_logloss %.4f valid_auc %.4f valid_logloss %.4f", epoch, total / len(train_loader), auc, ll)


if __name__ == "__main__":
    main(sys.argv[1])
