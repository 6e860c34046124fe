"""Fit a species head on the frozen wingbeat encoder with a few labelled field recordings."""
import argparse
import json
import os

import numpy as np
import torch
from torch import nn


def build_encoder():
    return nn.Sequential(
        nn.Conv1d(1, 24, 25, stride=2, padding=12), nn.ReLU(),
        nn.Conv1d(24, 32, 9, stride=2, padding=4), nn.ReLU(),
        nn.Conv1d(32, 48, 7, stride=2, padding=3), nn.ReLU(),
        nn.Conv1d(48, 64, 5, padding=2), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(),
    )


class SpeciesClassifier(nn.Module):
    def __init__(self, n_species):
        super().__init__()
        self.encoder = build_encoder()
        self.head = nn.Linear(64, n_species)

    def load_encoder(self, path):
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        self.encoder.load_state_dict(checkpoint["encoder"], strict=True)
        for p in self.encoder.parameters():
            p.requires_grad_(False)
        print(f"encoder loaded from {os.path.basename(path)} (step {checkpoint['step']})")

    def forward(self, wave):
        return self.head(self.encoder(wave))


def accuracy_per_species(model, x, y, n_species):
    model.eval()
    with torch.no_grad():
        pred = torch.cat([model(part).argmax(1) for part in x.split(100)])
    return [(pred[y == k] == k).float().mean().item() for k in range(n_species)], (pred == y).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    with open(os.path.join(args.folder, "config.json")) as f:
        cfg = json.load(f)
    data = np.load(os.path.join(args.folder, "field_2024.npz"))
    wave = torch.from_numpy(data["wave"]).float().unsqueeze(1)
    label = torch.from_numpy(data["label"]).long()
    is_val = torch.from_numpy(data["is_val"])
    x_tr, y_tr, x_va, y_va = wave[~is_val], label[~is_val], wave[is_val], label[is_val]
    species = cfg["species"]

    model = SpeciesClassifier(len(species))
    model.load_encoder(os.path.join(args.folder, cfg["encoder"]))
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trainable, lr=cfg["head_lr"], weight_decay=cfg["weight_decay"])
    print(f"{len(y_tr)} labelled recordings, {sum(p.numel() for p in trainable)} trainable weights")

    for epoch in range(cfg["epochs"]):
        model.train()
        losses = []
        for idx in torch.randperm(len(y_tr)).split(cfg["batch_size"]):
            loss = nn.functional.cross_entropy(model(x_tr[idx]), y_tr[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if (epoch + 1) % 10 == 0:
            per, acc = accuracy_per_species(model, x_va, y_va, len(species))
            print(f"epoch {epoch + 1:2d}  loss {np.mean(losses):.3f}  val accuracy {acc:.3f}  "
                  + " ".join(f"{s}={a:.2f}" for s, a in zip(species, per)))


if __name__ == "__main__":
    main()
