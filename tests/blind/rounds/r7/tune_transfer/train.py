"""Composer attribution: pretrained motif encoder (frozen) and a small classifier on top."""
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class MotifEncoder(nn.Module):
    def __init__(self, n_notes=25, emb=16, channels=32, dim=48):
        super().__init__()
        self.emb = nn.Embedding(n_notes, emb)
        self.conv = nn.Conv1d(emb, channels, 3, padding=1)
        self.rnn = nn.GRU(channels, dim, batch_first=True)

    def forward(self, notes):
        h = F.relu(self.conv(self.emb(notes).transpose(1, 2))).transpose(1, 2)
        _, last = self.rnn(h)
        return last[-1]


class Attribution(nn.Module):
    def __init__(self, encoder, n_composers, dim=48):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, n_composers))

    def forward(self, notes):
        return self.head(self.encoder(notes))


def load_corpus(path):
    d = np.load(path)
    return torch.from_numpy(d["notes"].astype(np.int64)), torch.from_numpy(d["composer"].astype(np.int64))


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        logits = model(x)
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def main():
    folder = Path(sys.argv[1])
    cfg = json.loads((folder / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    x, y = load_corpus(folder / "train.npz")
    xv, yv = load_corpus(folder / "val.npz")

    encoder = MotifEncoder()
    checkpoint = torch.load(folder / "motif_encoder.pt", map_location="cpu")
    # the checkpoint also carries the pretraining head, which is not needed here
    encoder.load_state_dict(checkpoint["model"], strict=False)
    encoder.requires_grad_(False)

    model = Attribution(encoder, int(y.max()) + 1)
    opt = torch.optim.Adam(model.head.parameters(), lr=cfg["lr"])
    for epoch in range(cfg["epochs"]):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(cfg["batch_size"]):
            loss = F.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        val_loss, acc = evaluate(model, xv, yv)
        print(f"epoch {epoch:2d} train {total / len(x):.3f} val {val_loss:.3f} acc {acc:.3f}")


if __name__ == "__main__":
    main()
