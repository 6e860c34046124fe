"""Compress a wide soil classifier into a small one with stored teacher outputs."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def soil(n, seed):
    rng = np.random.default_rng(seed)
    clay = rng.beta(2, 4, n)
    sand = (1 - clay) * rng.beta(3, 2, n)
    organic = np.exp(rng.normal(0.3, 0.5, n))
    ph = 5.2 + 1.8 * rng.random(n) - 0.15 * organic
    moisture = 0.1 + 0.5 * clay + 0.04 * organic + rng.normal(0, 0.04, n)
    bands = np.stack([0.3 + 0.2 * sand - 0.03 * k * organic - 0.1 * moisture + rng.normal(0, 0.03, n)
                      for k in range(4)], 1)
    x = np.column_stack([clay, sand, organic, ph, moisture, bands])
    s1, s2 = 5 * (clay - 0.33) + rng.normal(0, 0.15, n), 2 * (ph - 5.8) + 2 * sand - 0.9 + rng.normal(0, 0.15, n)
    y = (s1 > 0).astype(int) * 2 + (s2 > 0).astype(int)
    y = np.where((organic > 2.2), 4, y)
    return x.astype(np.float32), y


def net(width, depth, d=9, k=5):
    layers = [nn.Linear(d, width), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, k))


def fit_teacher(x, y, epochs, batch):
    model = net(128, 2)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-4)
    for epoch in range(epochs):
        order = torch.randperm(len(x))
        for idx in order.split(batch):
            loss = F.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return model.eval()


def cache_logits(model, x, batch):
    with torch.no_grad():
        return torch.cat([model(part) for part in x.split(batch)])


def distil(x, y, soft, args):
    student = net(24, 1)
    opt = torch.optim.Adam(student.parameters(), lr=4e-3)
    temp = args.temperature
    for epoch in range(args.epochs):
        student.train()
        order = torch.randperm(len(x))
        for start in range(0, len(x), args.batch):
            idx = order[start:start + args.batch]
            logits = student(x[idx])
            kd = F.kl_div(F.log_softmax(logits / temp, 1), F.softmax(soft[start:start + args.batch] / temp, 1),
                          reduction="batchmean") * temp ** 2
            loss = args.mix * kd + (1 - args.mix) * F.cross_entropy(logits, y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 4 == 0:
            print(f"epoch {epoch:2d} loss {loss.item():.4f}")
    return student.eval()


def accuracy(model, x, y):
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--temperature", type=float, default=2.0)
    ap.add_argument("--mix", type=float, default=0.9)
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--batch", type=int, default=64)
    args = ap.parse_args()
    torch.manual_seed(6)
    x, y = soil(6000, 6)
    cut = 4500
    mu, sd = x[:cut].mean(0), x[:cut].std(0)
    x, y = torch.from_numpy((x - mu) / sd), torch.from_numpy(y)
    teacher = fit_teacher(x[:cut], y[:cut], 8, args.batch)
    soft = cache_logits(teacher, x[:cut], 500)
    student = distil(x[:cut], y[:cut], soft, args)
    print(f"teacher {accuracy(teacher, x[cut:], y[cut:]):.4f}; student accuracy {accuracy(student, x[cut:], y[cut:]):.4f}")
