import sys
import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset, DataLoader


def read_table(path):
    data = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32)
    return torch.from_numpy(data[:, :-1].copy()), torch.from_numpy(data[:, -1].copy())


def auc(score, label):
    order = score.argsort()
    rank = torch.empty(len(score))
    rank[order] = torch.arange(1, len(score) + 1).float()
    n1 = label.sum()
    n0 = len(label) - n1
    return ((rank[label > 0.5].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)).item()


class CreditScorer:
    def __init__(self, n_features, mean, std):
        self.mean, self.std = mean, std
        self.net = nn.Sequential(nn.Linear(n_features, 24), nn.ReLU(), nn.Linear(24, 1))
        self.opt = torch.optim.Adam(self.net.parameters(), lr=5e-3, weight_decay=1e-4)

    def scores(self, x):
        return self.net((x - self.mean) / self.std)[:, 0]

    def epoch(self, loader):
        total = 0.0
        for x, y in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(self.scores(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item()
        return total / len(loader)


def main():
    folder = sys.argv[1]
    torch.manual_seed(1)
    x, y = read_table(f"{folder}/train.csv")
    xv, yv = read_table(f"{folder}/val.csv")
    xn, yn = read_table(f"{folder}/new_applications.csv")
    scorer = CreditScorer(x.shape[1], x.mean(0), x.std(0))
    loader = DataLoader(TensorDataset(x, y), batch_size=60, shuffle=True)
    for ep in range(12):
        loss = scorer.epoch(loader)
        if ep % 3 == 2:
            with torch.no_grad():
                print(f"epoch {ep + 1} loss {loss:.3f} validation AUC {auc(scorer.scores(xv), yv):.3f}")
    with torch.no_grad():
        s = scorer.scores(xn)
    print(f"new applications: AUC {auc(s, yn):.3f} accuracy {((s > 0).float() == yn).float().mean():.3f}")


if __name__ == "__main__":
    main()
