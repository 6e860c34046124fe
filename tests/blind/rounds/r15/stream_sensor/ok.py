"""Forecast the next pump pressure from a window of readings, fully lazy pipeline."""
import itertools
import math
import random
import torch
from torch import nn


def readings(n, seed):
    r = random.Random(seed)
    level = 0.0
    for t in range(n):
        level = 0.9 * level + r.gauss(0, 0.05)
        yield math.sin(t / 6.0) + 0.5 * math.sin(t / 2.3) + level


def windows(stream, size):
    buf = []
    for v in stream:
        buf.append(v)
        if len(buf) > size:
            yield buf[:size], buf[size]
            buf.pop(0)


def batched(pairs, k):
    it = iter(pairs)
    while chunk := list(itertools.islice(it, k)):
        xs, ys = zip(*chunk)
        yield torch.tensor(xs), torch.tensor(ys)[:, None]


def shuffled(items, seed):
    items = list(items)
    random.Random(seed).shuffle(items)
    return items


def run_epoch(net, batches, optimizer=None):
    total, count = 0.0, 0
    with torch.set_grad_enabled(optimizer is not None):
        for x, y in batches:
            loss = nn.functional.mse_loss(net(x), y)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total += loss.item() * len(x)
            count += len(x)
    return total / max(count, 1)


def main(size=16, epochs=25):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(size, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    train = list(batched(shuffled(windows(readings(1500, 1), size), 0), 25))
    test = list(batched(windows(readings(800, 2), size), 100))
    for epoch in range(epochs):
        train_mse = run_epoch(net, train, optimizer)
        if epoch in (0, epochs // 2, epochs - 1):
            print(f"epoch {epoch:2d} train mse {train_mse:.4f}")
    print(f"test mse {run_epoch(net, test):.5f}")


if __name__ == "__main__":
    main()
