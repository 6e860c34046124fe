"""Aqueous solubility (logS) from 256-bit fingerprints; picks width, decay and epoch on the validation file."""
import copy
import itertools
import pathlib
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

home = pathlib.Path(sys.argv[1])


def load(name):
    with np.load(home / f"{name}.npz") as z:
        bits = np.unpackbits(z["fingerprint"], axis=1).astype(np.float32)
        return torch.from_numpy(bits), torch.from_numpy(z["logS"])


class SolubilityNet(nn.Sequential):
    def __init__(self, n_bits, width, dropout):
        super().__init__(
            nn.Linear(n_bits, width), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(width, 1), nn.Flatten(0))


@torch.no_grad()
def rmse(net, x, y):
    net.eval()
    return (net(x) - y).pow(2).mean().sqrt().item()


def fit(train, valid, width, dropout, decay, epochs=40):
    torch.manual_seed(1)
    x, y = train
    net = SolubilityNet(x.shape[1], width, dropout)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=decay)
    loader = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True)
    best = (float("inf"), None, None)
    for epoch in range(epochs):
        net.train()
        for xb, yb in loader:
            opt.zero_grad()
            nn.functional.mse_loss(net(xb), yb).backward()
            opt.step()
        score = rmse(net, *valid)
        if score < best[0]:
            best = (score, epoch, copy.deepcopy(net.state_dict()))
    net.load_state_dict(best[2])
    return best[0], best[1], net


def main():
    train, valid, test = load("train"), load("valid"), load("test")
    center = train[1].mean()
    train, valid, test = [(x, y - center) for x, y in (train, valid, test)]
    print(f"{len(train[1])} train, {len(valid[1])} valid, {len(test[1])} test molecules")

    chosen = None
    for width, (dropout, decay) in itertools.product((32, 192), ((0.0, 1e-4), (0.4, 1e-1))):
        score, epoch, net = fit(train, valid, width, dropout, decay)
        print(f"width {width:3d} dropout {dropout} decay {decay}: valid RMSE {score:.4f} (epoch {epoch})")
        if chosen is None or score < chosen[0]:
            chosen = (score, net)
    baseline = test[1].std().item()
    print(f"always the mean: {baseline:.4f}")
    print(f"test RMSE of the chosen model: {rmse(chosen[1], *test):.4f}")


if __name__ == "__main__":
    main()
