"""Score essays on a scale of 1 to 6 from seven text features; the expert panel is the test."""
import csv
import sys
from os.path import join
import torch
from torch import nn, optim


def read_ratings(path):
    feats, scores, raters = [], [], []
    with open(path) as handle:
        for rec in csv.DictReader(handle, delimiter="\t"):
            feats.append([float(rec[f"f{i}"]) for i in range(7)])
            scores.append(float(rec["score"]))
            raters.append(rec["rater"])
    return torch.tensor(feats), torch.tensor(scores), raters


def batches(x, y, size, generator):
    order = torch.randperm(len(x), generator=generator)
    for k in range(0, len(x), size):
        pick = order[k:k + size]
        yield x[pick], y[pick]


class EssayScorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden1 = nn.Linear(7, 32)
        self.hidden2 = nn.Linear(32, 16)
        self.score = nn.Linear(16, 1)
        nn.init.constant_(self.score.bias, 3.5)

    def forward(self, x):
        h = torch.tanh(self.hidden1(x))
        h = torch.tanh(self.hidden2(h))
        return self.score(h)[:, 0]


def correlation(a, b):
    a, b = a - a.mean(), b - b.mean()
    return (a @ b / (a.norm() * b.norm())).item()


def train(model, x, y, epochs=30):
    gen = torch.Generator().manual_seed(0)
    optimizer = optim.Adam(model.parameters(), lr=4e-3)
    criterion = nn.MSELoss()
    for epoch in range(epochs):
        model.train()
        running, n = 0.0, 0
        for bx, by in batches(x, y, 44, gen):
            loss = criterion(model(bx), by)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running, n = running + loss.item(), n + 1
        if (epoch + 1) % 10 == 0:
            print(f"epoch {epoch + 1:2d}  mse {running / n:.3f}")


if __name__ == "__main__":
    torch.manual_seed(3)
    base = sys.argv[1]
    x, y, who = read_ratings(join(base, "ratings.tsv"))
    print(len(x), "ratings by", len(set(who)), "raters")
    model = EssayScorer()
    train(model, x, y)
    xp, yp, _ = read_ratings(join(base, "panel.tsv"))
    model.eval()
    with torch.no_grad():
        guess = model(xp)
    print(f"panel mse {(guess - yp).pow(2).mean().item():.4f}  correlation {correlation(guess, yp):.3f}")
