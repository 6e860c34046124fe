import copy, os
import gzip
import math
from pathlib import Path
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

DATA = Path(os.environ["TRUELOOP_DATA"])


def load(name, split, n):
    with gzip.open(DATA / name / f"{split}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + n * 784), np.uint8, offset=16).reshape(n, 784)
    with gzip.open(DATA / name / f"{split}-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(8 + n), np.uint8, offset=8)
    return torch.from_numpy(x.astype(np.float32) / 255 - 0.3), torch.from_numpy(y.astype(np.int64))


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, rank=8, alpha=16):
        super().__init__()
        self.base = base
        for p in self.base.parameters():
            p.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.zeros(rank, base.in_features))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scale = alpha / rank
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.zeros_(self.lora_a)
        nn.init.zeros_(self.lora_b)

    def forward(self, x):
        return self.base(x) + self.scale * F.linear(F.linear(x, self.lora_a), self.lora_b)


def mlp():
    return nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def fit(model, x, y, epochs, lr, tag):
    params = [p for p in model.parameters() if p.requires_grad]
    print(f"{tag}: {sum(p.numel() for p in params)} trainable parameters")
    opt = torch.optim.Adam(params, lr=lr)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        perm = torch.randperm(len(x))
        for idx in perm.split(64):
            loss = F.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        print(f"{tag} epoch {epoch} loss {total / len(x):.4f}")


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(1)
    source = mlp()
    x, y = load("mnist", "train", 4000)
    fit(source, x, y, 4, 1e-3, "pretrain")
    print(f"mnist test acc {accuracy(source, *load('mnist', 't10k', 2000)):.3f}")

    model = copy.deepcopy(source)
    model[0] = LoRALinear(model[0])
    model[2] = LoRALinear(model[2])
    model[4] = nn.Linear(32, 10)
    x, y = load("fashion-mnist", "train", 4000)
    fit(model, x, y, 8, 2e-3, "adapt")
    print(f"fashion test acc {accuracy(model, *load('fashion-mnist', 't10k', 2000)):.3f}")
