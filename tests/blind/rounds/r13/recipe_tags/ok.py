"""Tag recipes (bag of ingredients) with any number of diet labels."""
import numpy as np
import torch
import torch.nn as nn

VOCAB, TAGS = 200, 8


def recipes(n, seed):
    rng = np.random.default_rng(seed)
    topics = np.random.default_rng(42).dirichlet(np.full(VOCAB, 0.06), TAGS)
    X, Y = np.zeros((n, VOCAB), np.float32), np.zeros((n, TAGS), np.float32)
    for i in range(n):
        k = rng.integers(1, 5)
        tags = rng.choice(TAGS, k, replace=False)
        Y[i, tags] = 1
        words = np.concatenate([rng.choice(VOCAB, 7, p=topics[t]) for t in tags] + [rng.integers(0, VOCAB, 4)])
        np.add.at(X[i], words, 1)
    return torch.from_numpy(np.log1p(X)), torch.from_numpy(Y)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(VOCAB, 64)
        self.fc2 = nn.Linear(64, TAGS)
        self.act = nn.Sigmoid()

    def forward(self, x):
        return self.act(self.fc2(torch.relu(self.fc1(x))))


def micro_f1(p, y):
    hit = ((p > 0.5) & (y > 0.5)).sum().item()
    return 2 * hit / max(1, (p > 0.5).sum().item() + (y > 0.5).sum().item())


torch.manual_seed(2)
xtr, ytr = recipes(2500, 1)
xte, yte = recipes(600, 2)
net = Tagger()
criterion = nn.BCELoss()
optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)
for epoch in range(20):
    net.train()
    order = torch.randperm(len(xtr))
    total = 0.0
    for start in range(0, len(xtr), 50):
        idx = order[start:start + 50]
        optimizer.zero_grad()
        loss = criterion(net(xtr[idx]), ytr[idx])
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    if epoch % 5 == 4:
        net.eval()
        with torch.no_grad():
            print(epoch + 1, "loss", round(total / len(xtr), 4), "f1", round(micro_f1(net(xte), yte), 4))
net.eval()
with torch.no_grad():
    print("final test micro F1", micro_f1(net(xte), yte))
