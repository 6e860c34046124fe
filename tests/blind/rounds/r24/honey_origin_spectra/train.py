"""Botanical origin of honey from NIR spectra.

An autoencoder was pretrained on all spectra of the lab and the declared origins (encoder.pt); here its encoder
is kept and a classifier is fitted on the few samples with a pollen analysis.
usage: python train.py FOLDER
"""
import csv
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

folder = Path(sys.argv[1])
conf = json.loads((folder / "finetune.json").read_text())
torch.manual_seed(conf["seed"])


class Encoder(nn.Module):
    def __init__(self, bands, hidden, latent):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(bands, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(),
                                 nn.Linear(hidden, latent))

    def forward(self, x):
        return self.net(x)


class OriginNet(nn.Module):
    def __init__(self, bands, classes, hidden, latent):
        super().__init__()
        self.encoder = Encoder(bands, hidden, latent)
        self.head = nn.Sequential(nn.LayerNorm(latent), nn.Dropout(0.1), nn.Linear(latent, classes))

    def forward(self, x):
        return self.head(self.encoder(x))


def read_spectra(path, classes):
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    bands = [c for c in rows[0] if c.startswith("nm_")]
    x = np.array([[float(r[b]) for b in bands] for r in rows], dtype=np.float32)
    y = np.array([classes.index(r["origin"]) for r in rows])
    return torch.from_numpy(x), torch.from_numpy(y)


state = torch.load(folder / "encoder.pt", weights_only=True)
classes = conf["origins"]
x_tr, y_tr = read_spectra(folder / "pollen_train.csv", classes)
x_va, y_va = read_spectra(folder / "pollen_valid.csv", classes)
mean, std = state["mean"], state["std"]
x_tr, x_va = (x_tr - mean) / std, (x_va - mean) / std

model = OriginNet(x_tr.shape[1], len(classes), conf["hidden"], conf["latent"])
model.load_state_dict(state["model"], strict=False)  # the decoder is not needed, the head is new
groups = [{"params": model.encoder.parameters(), "lr": conf["lr_encoder"]},
          {"params": model.head.parameters(), "lr": conf["lr_head"]}]
opt = torch.optim.AdamW(groups, weight_decay=0.01)
steps = conf["epochs"] * -(-len(x_tr) // conf["batch"])
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
ce = nn.CrossEntropyLoss()

for epoch in range(1, conf["epochs"] + 1):
    model.train()
    losses = []
    for idx in torch.randperm(len(x_tr)).split(conf["batch"]):
        loss = ce(model(x_tr[idx]), y_tr[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        losses.append(loss.item())
    if epoch % 10 == 0:
        model.eval()
        with torch.no_grad():
            logits = model(x_va)
        acc = (logits.argmax(1) == y_va).float().mean().item()
        print(f"epoch {epoch:3d}  train {np.mean(losses):.3f}  valid ce {ce(logits, y_va):.3f}  acc {acc:.3f}")

recall = [(logits.argmax(1)[y_va == k] == k).float().mean().item() for k in range(len(classes))]
print("recall:", "  ".join(f"{c} {r:.2f}" for c, r in zip(classes, recall)))
