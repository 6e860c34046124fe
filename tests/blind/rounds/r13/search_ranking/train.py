"""Listwise ranking (softmax cross-entropy over each query)."""
import os
import sys
import numpy as np
import torch
from torch import nn


class RankData:
    def __init__(self, folder, part):
        a = torch.from_numpy(np.loadtxt(os.path.join(folder, part + ".csv"), delimiter=",", dtype=np.float32))
        sizes = [int(s) for s in open(os.path.join(folder, part + ".group")).read().split()]
        assert sum(sizes) == len(a)
        self.lists = [(c[:, 1:], c[:, 0]) for c in a.split(sizes)]

    def padded(self, ids):
        m = max(len(self.lists[i][1]) for i in ids)
        x, g = torch.zeros(len(ids), m, 10), torch.zeros(len(ids), m)
        mask = torch.zeros(len(ids), m, dtype=torch.bool)
        for r, i in enumerate(ids):
            a, b = self.lists[i]
            x[r, :len(b)], g[r, :len(b)], mask[r, :len(b)] = a, b, True
        return x, g, mask


def listwise(scores, grade, mask):
    gain = (2 ** grade - 1) * mask
    p = gain / gain.sum(1, keepdim=True).clamp(min=1e-6)
    logp = scores.masked_fill(~mask, -1e9).log_softmax(1)
    return -(p * logp.masked_fill(~mask, 0)).sum(1).mean()


def ndcg(net, data, k=5):
    out = []
    with torch.no_grad():
        for x, g in data.lists:
            disc = 1 / torch.log2(torch.arange(min(k, len(g))) + 2.0)
            gain = 2 ** g - 1
            top = gain[net(x).squeeze(1).argsort(descending=True)][:k]
            ideal = gain.sort(descending=True).values[:k]
            if ideal.sum() > 0:
                out.append(((top * disc).sum() / (ideal * disc).sum()).item())
    return float(np.mean(out))


def main():
    torch.manual_seed(0)
    folder = sys.argv[1]
    train, test = RankData(folder, "train"), RankData(folder, "test")
    net = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for epoch in range(40):
        net.train()
        losses = []
        for ids in torch.randperm(len(train.lists)).split(16):
            x, g, m = train.padded(ids.tolist())
            loss = listwise(net(x).squeeze(-1), g, m)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1} listwise {np.mean(losses):.4f}")
    net.eval()
    print("final test NDCG@5", ndcg(net, test))


main()
