import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N_CLASSES = 10
LENGTH = 96


def make_signals(n, rng, motifs):
    labels = rng.integers(0, N_CLASSES, n)
    xs = np.zeros((n, LENGTH), dtype=np.float32)
    t = np.linspace(-1, 1, LENGTH)
    for i, c in enumerate(labels):
        x = np.zeros(LENGTH)
        for s in rng.integers(0, LENGTH - 16, 3):
            x[s:s + 16] += motifs[c] * rng.uniform(0.8, 1.2)
        x = x * rng.choice([-1.0, 1.0])
        drift = rng.normal(0, 1.2) * t + rng.normal(0, 1.2) + rng.normal(0, 1.0) * np.sin(3 * t + rng.uniform(0, 6))
        xs[i] = x * rng.lognormal(0, 0.4) + drift + rng.normal(0, 0.15, LENGTH)
    return torch.from_numpy(xs)[:, None], torch.from_numpy(labels)


def augment(x):
    n = x.shape[0]
    t = torch.linspace(-1, 1, x.shape[-1])
    gain = torch.exp(0.4 * torch.randn(n, 1, 1)) * (torch.randint(0, 2, (n, 1, 1)) * 2 - 1)
    drift = 1.2 * torch.randn(n, 1, 1) * t + 1.2 * torch.randn(n, 1, 1)
    wave = torch.randn(n, 1, 1) * torch.sin(3 * t + 6.28 * torch.rand(n, 1, 1))
    shift = torch.randint(0, x.shape[-1], (n, 1, 1))
    idx = (torch.arange(x.shape[-1]) + shift) % x.shape[-1]
    return torch.gather(x, 2, idx) * gain + drift + wave + 0.1 * torch.randn_like(x)


class Encoder(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 24, 7, padding=3), nn.BatchNorm1d(24), nn.ReLU(),
            nn.Conv1d(24, 40, 5, padding=2), nn.BatchNorm1d(40), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(40, dim, 5, padding=2), nn.BatchNorm1d(dim), nn.ReLU(),
        )
        self.projector = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 32))

    def features(self, x):
        return self.conv(x).amax(-1)

    def forward(self, x):
        return self.projector(self.features(x))


def nt_xent(z1, z2, temperature):
    """SimCLR loss over a batch of N pairs of views."""
    n = z1.shape[0]
    z = torch.stack([z1, z2], dim=1).flatten(0, 1)
    z = F.normalize(z, dim=1)
    sim = z @ z.t() / temperature
    sim.fill_diagonal_(float("-inf"))
    idx = torch.arange(2 * n)
    return F.cross_entropy(sim, idx ^ 1)


@torch.no_grad()
def knn_accuracy(model, bank_x, bank_y, x, y, k=10):
    model.eval()
    bank = F.normalize(model.features(bank_x), dim=1)
    query = F.normalize(model.features(x), dim=1)
    near = (query @ bank.t()).topk(k, dim=1).indices
    votes = F.one_hot(bank_y[near], N_CLASSES).sum(1)
    return (votes.argmax(1) == y).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--temperature", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    motifs = rng.normal(0, 1, (N_CLASSES, 16))
    motifs -= motifs.mean(1, keepdims=True)
    x_train, y_train = make_signals(1280, rng, motifs)
    x_test, y_test = make_signals(400, rng, motifs)

    model = Encoder()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    for epoch in range(args.epochs):
        model.train()
        perm = torch.randperm(len(x_train))
        losses = []
        for i in range(0, len(perm), args.batch_size):
            x = x_train[perm[i:i + args.batch_size]]
            loss = nt_xent(model(augment(x)), model(augment(x)), args.temperature)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        if epoch % 3 == 2:
            acc = knn_accuracy(model, x_train, y_train, x_test, y_test)
            print(f"epoch {epoch + 1:2d}  loss {np.mean(losses):.3f}  knn {acc:.3f}", flush=True)
    print(f"final knn accuracy: {knn_accuracy(model, x_train, y_train, x_test, y_test):.4f}")


if __name__ == "__main__":
    main()
