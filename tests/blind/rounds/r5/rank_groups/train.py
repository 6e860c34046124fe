"""RankNet on offers; rows of one query are consecutive, NAME.group holds the number of rows per query."""
import os
import random
import sys
import numpy as np
import torch
from torch import nn


class Queries:
    def __init__(self, folder, name):
        table = torch.tensor(np.loadtxt(os.path.join(folder, name + ".csv"), delimiter=","), dtype=torch.float32)
        sizes = [int(v) for v in open(os.path.join(folder, name + ".group")).read().split()]
        assert sum(sizes) == len(table)
        self.groups = [(g[:, :-1], g[:, -1]) for g in table.split(sizes)]


def scorer(n_in):
    return nn.Sequential(nn.Linear(n_in, 16), nn.Tanh(), nn.Linear(16, 1))


def pair_loss(scores, relevance):
    i, j = torch.nonzero(relevance[:, None] > relevance[None, :], as_tuple=True)
    return nn.functional.softplus(scores[j] - scores[i]).mean()


def pair_accuracy(model, queries):
    model.eval()
    right = total = 0
    with torch.no_grad():
        for x, relevance in queries.groups:
            s = model(x).squeeze(1)
            i, j = torch.nonzero(relevance[:, None] > relevance[None, :], as_tuple=True)
            right += (s[i] > s[j]).sum().item()
            total += len(i)
    return right / total


def main(folder):
    torch.manual_seed(53)
    random.seed(53)
    train, valid = Queries(folder, "train"), Queries(folder, "valid")
    n_in = train.groups[0][0].shape[1]
    every = torch.cat([x for x, _ in train.groups])
    mean, std = every.mean(0), every.std(0)
    for part in (train, valid):
        part.groups = [((x - mean) / std, r) for x, r in part.groups]
    model = scorer(n_in)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(8):
        model.train()
        order = [g for g in train.groups if len(g[1]) > 1]
        random.shuffle(order)
        total, steps = 0.0, 0
        for start in range(0, len(order), 8):
            batch = order[start:start + 8]
            loss = torch.stack([pair_loss(model(x).squeeze(1), r) for x, r in batch]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, steps = total + loss.item(), steps + 1
        print(f"epoch {epoch} loss {total / steps:.4f} valid pair accuracy {pair_accuracy(model, valid):.3f}")
    print(f"valid pair accuracy {pair_accuracy(model, valid):.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
