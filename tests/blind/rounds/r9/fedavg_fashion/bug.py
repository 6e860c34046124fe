"""FedAvg on Fashion-MNIST with label-skewed clients."""
import os
import argparse
import gzip
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

DATA = Path(os.environ["TRUELOOP_DATA"] + "/fashion-mnist")


def load():
    with gzip.open(DATA / "t10k-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(DATA / "t10k-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(), np.uint8, offset=8)
    order = np.random.default_rng(1).permutation(len(y))[:6000]
    x = torch.from_numpy(x[order].astype(np.float32) / 255.0)
    x = (x - 0.2860) / 0.3530
    y = torch.from_numpy(y[order].astype(np.int64))
    return (x[:5000], y[:5000]), (x[5000:], y[5000:])


def split_clients(y, n_clients, alpha, rng):
    """Dirichlet partition: every client gets its own mixture of the classes."""
    parts = [[] for _ in range(n_clients)]
    for c in range(10):
        idx = rng.permutation(np.flatnonzero(y.numpy() == c))
        cuts = (np.cumsum(rng.dirichlet([alpha] * n_clients))[:-1] * len(idx)).astype(int)
        for part, chunk in zip(parts, np.split(idx, cuts)):
            part.extend(chunk.tolist())
    return [torch.tensor(p) for p in parts if len(p) >= 20]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 96)
        self.fc2 = nn.Linear(96, 10)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


class Server:
    def __init__(self, args):
        self.args = args
        self.model = Net()
        self.worker = Net()

    def local_update(self, x, y):
        """One client's local epochs, starting from the current global weights."""
        self.worker.load_state_dict(self.model.state_dict())
        self.worker.train()
        opt = torch.optim.SGD(self.worker.parameters(), lr=self.args.lr, momentum=0.9)
        total, n = 0.0, 0
        for _ in range(self.args.local_epochs):
            for idx in torch.randperm(len(y)).split(32):
                loss = F.cross_entropy(self.worker(x[idx]), y[idx])
                opt.zero_grad()
                loss.backward()
                opt.step()
                total += loss.item()
                n += 1
        return self.worker.state_dict(), total / n

    def aggregate(self, states, sizes):
        weight = torch.tensor(sizes, dtype=torch.float32)
        weight = weight / weight.sum()
        merged = {k: sum(w * s[k] for w, s in zip(weight, states)) for k in states[0]}
        self.model.load_state_dict(merged)

    @torch.no_grad()
    def evaluate(self, x, y):
        self.model.eval()
        out = self.model(x)
        return F.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rounds", type=int, default=12)
    ap.add_argument("--clients", type=int, default=8)
    ap.add_argument("--alpha", type=float, default=0.3)
    ap.add_argument("--lr", type=float, default=0.01)
    ap.add_argument("--local-epochs", type=int, default=1)
    args = ap.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    (x, y), (tx, ty) = load()
    clients = split_clients(y, args.clients, args.alpha, rng)
    print("client sizes", [len(c) for c in clients])
    server = Server(args)
    for rnd in range(args.rounds):
        states, sizes, losses = [], [], []
        for idx in clients:
            state, loss = server.local_update(x[idx], y[idx])
            states.append(state)
            sizes.append(len(idx))
            losses.append(loss)
        server.aggregate(states, sizes)
        tloss, acc = server.evaluate(tx, ty)
        print(f"round {rnd:2d} client loss {np.mean(losses):.3f} test loss {tloss:.3f} test acc {acc:.3f}")


if __name__ == "__main__":
    main()
