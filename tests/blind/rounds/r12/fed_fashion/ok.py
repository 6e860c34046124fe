# Federated averaging on Fashion-MNIST: ten clients, three garment classes each.
import copy
import gzip
import os

import numpy as np
import torch
from torch import nn, optim

ROOT = os.path.join(os.environ["TRUELOOP_DATA"], "fashion-mnist")
ROUNDS, CLIENTS, LOCAL_EPOCHS, BATCH = 10, 10, 1, 32


def idx(name, head, size):
    with gzip.open(os.path.join(ROOT, name)) as f:
        return np.frombuffer(f.read(head + size), np.uint8, offset=head)


def load(split, n):
    x = idx(f"{split}-images-idx3-ubyte.gz", 16, 784 * n).reshape(-1, 28, 28)
    y = idx(f"{split}-labels-idx1-ubyte.gz", 8, n)
    x = torch.from_numpy(x.astype(np.float32) / 255.0 - 0.29) / 0.35
    return nn.functional.avg_pool2d(x[:, None], 2), torch.from_numpy(y.astype(np.int64))


def shards(y, rng):
    """Give every client three classes, equal shares of each."""
    owners = [[(c + k) % 10 for k in (0, 1, 4)] for c in range(CLIENTS)]
    parts = [[] for _ in range(CLIENTS)]
    for cls in range(10):
        where = np.flatnonzero(y.numpy() == cls)
        rng.shuffle(where)
        who = [c for c in range(CLIENTS) if cls in owners[c]]
        for c, piece in zip(who, np.array_split(where, len(who))):
            parts[c].append(piece)
    return [torch.from_numpy(np.concatenate(p)) for p in parts]


def make_net():
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(12 * 49, 64), nn.ReLU(), nn.Linear(64, 10))


class Client:
    def __init__(self, x, y, lr):
        self.x, self.y, self.lr = x, y, lr

    def fit(self, net):
        net.train()
        opt = optim.SGD(net.parameters(), lr=self.lr, momentum=0.5)
        crit = nn.CrossEntropyLoss()
        total = 0.0
        for _ in range(LOCAL_EPOCHS):
            order = torch.randperm(len(self.y))
            for i in range(0, len(order), BATCH):
                b = order[i:i + BATCH]
                opt.zero_grad()
                loss = crit(net(self.x[b]), self.y[b])
                loss.backward()
                opt.step()
                total += loss.item() * len(b)
        return total / (LOCAL_EPOCHS * len(self.y))


def average(states, sizes):
    total = float(sum(sizes))
    out = {}
    for key in states[0]:
        out[key] = sum(s[key] * (n / total) for s, n in zip(states, sizes))
    return out


def accuracy(net, x, y):
    net.eval()
    with torch.no_grad():
        return (net(x).argmax(1) == y).float().mean().item()


torch.manual_seed(11)
rng = np.random.default_rng(11)
xtr, ytr = load("train", 4000)
xte, yte = load("t10k", 2000)
clients = [Client(xtr[p], ytr[p], lr=0.03) for p in shards(ytr, rng)]

server = make_net()
worker = make_net()
for rnd in range(ROUNDS):
    states, sizes, losses = [], [], []
    for c in rng.permutation(CLIENTS):
        worker.load_state_dict(server.state_dict())
        losses.append(clients[c].fit(worker))
        states.append(copy.deepcopy(worker.state_dict()))
        sizes.append(len(clients[c].y))
    server.load_state_dict(average(states, sizes))
    print(f"round {rnd + 1:2d}  client loss {np.mean(losses):.3f}")
print(f"server accuracy {accuracy(server, xte, yte):.4f}")
