"""Response to therapy from expression profiles: 5-fold cross-validated small network."""
import argparse

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold
from torch import nn


def expression(n_patients, n_genes, rng):
    pathways = rng.normal(size=(n_patients, 30))
    loading = rng.normal(size=(30, n_genes)) * (rng.random((30, n_genes)) < 0.01)
    counts = pathways @ loading + rng.normal(size=(n_patients, n_genes))
    risk = 1.1 * pathways[:, 0] + rng.normal(0, 1.1, n_patients)
    response = (risk > np.median(risk)).astype(np.int64)
    return counts.astype(np.float32), response


def rank_genes(x, y, k):
    xc = x - x.mean(0)
    yc = y - y.mean()
    r = np.abs(xc.T @ yc) / (xc.std(0) * yc.std() * len(y) + 1e-9)
    return np.argsort(-r)[:k]


def make_net(n_in):
    return nn.Sequential(nn.Linear(n_in, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2))


def train_fold(x, y, epochs, lr):
    net = make_net(x.shape[1])
    opt = torch.optim.AdamW(net.parameters(), lr=lr, weight_decay=1e-2)
    net.train()
    for _ in range(epochs):
        for idx in torch.randperm(len(x)).split(16):
            opt.zero_grad()
            nn.functional.cross_entropy(net(x[idx]), y[idx]).backward()
            opt.step()
    return net.eval()


def cross_validate(x, y, args):
    folds = StratifiedKFold(args.folds, shuffle=True, random_state=args.seed)
    hits = np.zeros(len(y), dtype=bool)
    genes = rank_genes(x, y, args.genes)
    for number, (tr, te) in enumerate(folds.split(x, y)):
        xtr, xte = x[tr][:, genes], x[te][:, genes]
        mu, sd = xtr.mean(0), xtr.std(0)
        xtr, xte = (torch.from_numpy((a - mu) / sd) for a in (xtr, xte))
        net = train_fold(xtr, torch.from_numpy(y[tr]), args.epochs, args.lr)
        with torch.no_grad():
            hits[te] = net(xte).argmax(1).numpy() == y[te]
        print(f"fold {number}: {hits[te].mean():.3f}")
    return hits.mean()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=2)
    p.add_argument("--folds", type=int, default=5)
    p.add_argument("--genes", type=int, default=40)
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--lr", type=float, default=3e-3)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    x, y = expression(90, 12000, np.random.default_rng(args.seed))
    print(f"cv_accuracy={cross_validate(x, y, args):.4f}")
