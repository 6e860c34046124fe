"""Federated averaging over clients with unequal, label-skewed MNIST shards."""
import argparse
import copy
import gzip
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

DATA = os.path.join(os.environ["TRUELOOP_DATA"], "mnist")


def read_idx(name, count):
    with gzip.open(os.path.join(DATA, name), "rb") as f:
        header = f.read(4)
        dims = [int.from_bytes(f.read(4), "big") for _ in range(header[3])]
        raw = f.read(count * int(np.prod(dims[1:])))
    return np.frombuffer(raw, np.uint8).reshape([count] + dims[1:])


def load(prefix, count):
    x = read_idx(f"{prefix}-images-idx3-ubyte.gz", count).astype(np.float32) / 255.0
    y = read_idx(f"{prefix}-labels-idx1-ubyte.gz", count).astype(np.int64)
    x = (x - 0.1307) / 0.3081
    return torch.from_numpy(x)[:, None], torch.from_numpy(y)


def make_net():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 96), nn.ReLU(),
        nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, 10),
    )


def partition(labels, n_clients, alpha, rng):
    """Dirichlet label skew: every class is dealt out in unequal parts."""
    shares = [[] for _ in range(n_clients)]
    for c in range(10):
        idx = rng.permutation(np.flatnonzero(labels.numpy() == c))
        p = rng.dirichlet(np.full(n_clients, alpha))
        cuts = (np.cumsum(p)[:-1] * len(idx)).astype(int)
        for share, part in zip(shares, np.split(idx, cuts)):
            share.append(part)
    return [torch.from_numpy(np.concatenate(s)) for s in shares]


def local_update(net, x, y, epochs, lr, batch_size):
    net.train()
    opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    losses = []
    for _ in range(epochs):
        for idx in torch.randperm(len(y)).split(batch_size):
            opt.zero_grad()
            loss = F.cross_entropy(net(x[idx]), y[idx])
            loss.backward()
            opt.step()
            losses.append(loss.item())
    return net.state_dict(), sum(losses) / len(losses)


def aggregate(updates, sizes):
    total = sum(sizes)
    merged = {k: torch.zeros_like(v) for k, v in updates[0].items()}
    for state, n in zip(updates, sizes):
        for k, v in state.items():
            merged[k] += v * (n / total)
    return merged


@torch.no_grad()
def accuracy(net, x, y):
    net.eval()
    hits = sum((net(xb).argmax(1) == yb).sum().item()
               for xb, yb in zip(x.split(500), y.split(500)))
    return hits / len(y)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--clients", type=int, default=16)
    ap.add_argument("--per-round", type=int, default=8)
    ap.add_argument("--rounds", type=int, default=20)
    ap.add_argument("--local-epochs", type=int, default=1)
    ap.add_argument("--lr", type=float, default=0.03)
    args = ap.parse_args()

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    x, y = load("train", 5000)
    xv, yv = load("t10k", 2000)
    clients = partition(y, args.clients, alpha=1.0, rng=rng)
    sizes = [len(c) for c in clients]
    print("client sizes:", sizes)

    server = make_net()
    for rnd in range(1, args.rounds + 1):
        chosen = rng.choice(args.clients, args.per_round, replace=False)
        updates, losses = [], []
        for c in chosen:
            idx = clients[c]
            state, loss = local_update(copy.deepcopy(server), x[idx], y[idx],
                                       args.local_epochs, args.lr, batch_size=32)
            updates.append(state)
            losses.append(loss)
        server.load_state_dict(aggregate(updates, [sizes[c] for c in chosen]))
        print(f"round {rnd:2d}  client loss {np.mean(losses):.4f}  "
              f"server val acc {accuracy(server, xv, yv):.4f}")


if __name__ == "__main__":
    main()
