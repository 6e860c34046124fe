import argparse
import pathlib

import numpy as np
import torch
from torch import nn


class Encoder(nn.Sequential):
    def __init__(self, d_in=40, d_hidden=96, d_out=12):
        super().__init__(nn.Linear(d_in, d_hidden), nn.GELU(), nn.Linear(d_hidden, d_hidden), nn.GELU(), nn.Linear(d_hidden, d_out))


class Probe(nn.Module):
    def __init__(self, d, classes):
        super().__init__()
        self.norm = nn.BatchNorm1d(d)
        self.lin = nn.Linear(d, classes)

    def forward(self, z):
        return self.lin(self.norm(z))


def encoder_from(path):
    ckpt = torch.load(path, weights_only=True)
    encoder = Encoder()
    encoder.load_state_dict(ckpt["ema"])
    print("encoder from step", ckpt["step"])
    return encoder.eval().requires_grad_(False)


@torch.no_grad()
def embed(encoder, x, size=512):
    return torch.cat([encoder(part) for part in x.split(size)])


def fit_probe(z, y, classes, epochs, lr, size):
    probe = Probe(z.shape[1], classes)
    opt = torch.optim.Adam(probe.parameters(), lr=lr)
    for epoch in range(epochs):
        probe.train()
        for idx in torch.randperm(len(y)).split(size):
            if len(idx) < 2:
                continue
            loss = nn.functional.cross_entropy(probe(z[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        if (epoch + 1) % 10 == 0:
            print("epoch", epoch + 1, "loss", round(loss.item(), 4))
    return probe.eval()


def main():
    cli = argparse.ArgumentParser(description="morphology probe on a self-supervised encoder")
    cli.add_argument("folder", type=pathlib.Path)
    folder = cli.parse_args().folder
    torch.manual_seed(23)
    with np.load(folder / "survey.npz") as z:
        x, y = torch.from_numpy(z["profile"]), torch.from_numpy(z["type"])
        vx, vy = torch.from_numpy(z["profile_valid"]), torch.from_numpy(z["type_valid"])
    mu, sd = x.mean(0), x.std(0)
    encoder = encoder_from(folder / "encoder_last.pt")
    z, vz = embed(encoder, (x - mu) / sd), embed(encoder, (vx - mu) / sd)
    probe = fit_probe(z, y, int(y.max()) + 1, epochs=30, lr=5e-3, size=64)
    with torch.no_grad():
        accuracy = (probe(vz).argmax(1) == vy).float().mean().item()
    print(f"probe accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
