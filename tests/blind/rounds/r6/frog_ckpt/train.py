"""Frog chorus: linear probe on a pretrained call encoder, few labelled clips."""
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

MELS, FRAMES, N_SPECIES = 20, 40, 8
N_TRAIN = 200


class Encoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.dim = dim
        self.conv1 = nn.Conv1d(MELS, 24, 5, padding=2)
        self.conv2 = nn.Conv1d(24, 24, 5, padding=2)
        self.proj = nn.Linear(48, dim)

    def forward(self, x):
        h = torch.relu(self.conv1(x))
        h = torch.relu(self.conv2(h))
        return torch.relu(self.proj(torch.cat([h.mean(-1), h.amax(-1)], 1)))


class Probe(nn.Module):
    def __init__(self, encoder, n_out):
        super().__init__()
        self.encoder = encoder
        self.fc = nn.Linear(encoder.dim, n_out)

    def forward(self, x):
        return self.fc(self.encoder(x))


def load_encoder(path):
    encoder = Encoder()
    ckpt = torch.load(path, map_location="cpu", weights_only=True)
    encoder.load_state_dict(ckpt["encoder"], strict=False)
    print(f"encoder checkpoint of epoch {ckpt['epoch']}, {len(ckpt['encoder'])} tensors")
    encoder.eval()
    for p in encoder.parameters():
        p.requires_grad_(False)
    return encoder


def load_clips(path):
    with np.load(path) as z:
        spec = (z["spec"].astype(np.float32) - 16) / 8
        return torch.from_numpy(spec), torch.from_numpy(z["label"])


def train_epoch(model, opt, x, y, batch_size=24):
    model.fc.train()
    losses = []
    for idx in torch.randperm(len(x)).split(batch_size):
        loss = nn.functional.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return np.mean(losses)


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(1)
    x, y = load_clips(folder / "clips.npz")
    x_tr, y_tr, x_va, y_va = x[:N_TRAIN], y[:N_TRAIN], x[N_TRAIN:], y[N_TRAIN:]
    model = Probe(load_encoder(folder / "encoder.pt"), N_SPECIES)
    opt = torch.optim.Adam(model.fc.parameters(), lr=1e-2)
    for epoch in range(1, 21):
        loss = train_epoch(model, opt, x_tr, y_tr)
        if epoch % 4 == 0:
            print(f"epoch {epoch:2d} loss {loss:.4f} train acc {accuracy(model, x_tr, y_tr):.3f} "
                  f"valid acc {accuracy(model, x_va, y_va):.3f}")


if __name__ == "__main__":
    main()
