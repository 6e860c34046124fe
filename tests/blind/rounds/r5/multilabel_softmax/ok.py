import argparse
import numpy as np
import torch
from torch import nn

TAGS = ["economy", "sport", "health", "travel", "science", "music"]
VOCAB, WORDS = 200, 25


def articles(n, rng):
    topics = rng.random((n, len(TAGS))) < 0.35
    topics[~topics.any(1), 0] = True
    counts = np.zeros((n, VOCAB), dtype=np.float32)
    for i in range(n):
        active = np.flatnonzero(topics[i])
        for _ in range(WORDS):
            if rng.random() < 0.55:
                word = rng.choice(active) * 20 + rng.integers(0, 20)
            else:
                word = rng.integers(120, VOCAB)
            counts[i, word] += 1
    return torch.from_numpy(np.log1p(counts)), torch.tensor(topics, dtype=torch.float32)


class TagModel(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.hidden = nn.Linear(VOCAB, hidden)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(hidden, len(TAGS))

    def forward(self, x):
        scores = self.out(self.drop(torch.relu(self.hidden(x))))
        return torch.sigmoid(scores)


def micro_f1(model, x, y):
    model.eval()
    with torch.no_grad():
        pred = (model(x) > 0.5).float()
    hit = (pred * y).sum().item()
    return 2 * hit / max(1.0, pred.sum().item() + y.sum().item()), pred.sum(1).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    torch.manual_seed(9)
    rng = np.random.default_rng(9)
    x_train, y_train = articles(2000, rng)
    x_valid, y_valid = articles(600, rng)
    model = TagModel()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    bce = nn.BCELoss()
    for epoch in range(args.epochs):
        model.train()
        losses = []
        for idx in torch.randperm(len(x_train)).split(64):
            opt.zero_grad()
            loss = bce(model(x_train[idx]), y_train[idx])
            loss.backward()
            opt.step()
            losses.append(loss.item())
        f1, per_article = micro_f1(model, x_valid, y_valid)
        print(f"epoch {epoch} loss {np.mean(losses):.4f} valid micro f1 {f1:.3f}")
    print(f"valid micro f1 {f1:.3f}, tags per article {per_article:.2f} (true {y_valid.sum(1).mean():.2f})")


if __name__ == "__main__":
    main()
