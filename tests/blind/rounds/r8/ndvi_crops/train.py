"""Crop type from a season of 16-day NDVI composites (23 per year). Cloud gaps are interpolated."""
import json
import os
import sys

import numpy as np
import torch
import torch.nn as nn

CROPS = ["wheat", "rapeseed", "maize", "sugar beet", "grass"]


def fill_gaps(raw, fill_value, scale):
    series = raw.astype(np.float32) * scale
    steps = np.arange(raw.shape[1])
    for i in range(len(raw)):
        gap = raw[i] == fill_value
        if gap.any() and not gap.all():
            series[i, gap] = np.interp(steps[gap], steps[~gap], series[i, ~gap])
    return series


def load_split(folder, name, cfg):
    with np.load(os.path.join(folder, name + ".npz")) as z:
        return fill_gaps(z["ndvi"], cfg["fill_value"], cfg["scale_factor"]), torch.from_numpy(z["crop"])


class CropNet(nn.Module):
    def __init__(self, n_classes, hidden=24):
        super().__init__()
        self.gru = nn.GRU(1, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, n_classes)

    def forward(self, x):
        out, _ = self.gru(x.unsqueeze(-1))
        return self.head(out.mean(1))


def run(folder):
    with open(os.path.join(folder, "config.json")) as f:
        cfg = json.load(f)
    torch.manual_seed(cfg["seed"])
    x_tr, y_tr = load_split(folder, "train", cfg)
    x_va, y_va = load_split(folder, "valid", cfg)
    mean, std = x_tr.mean(), x_tr.std()
    x_tr, x_va = torch.from_numpy((x_tr - mean) / std), torch.from_numpy((x_va - mean) / std)

    model = CropNet(len(CROPS))
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(cfg["epochs"]):
        model.train()
        losses = []
        for idx in torch.randperm(len(x_tr)).split(cfg["batch_size"]):
            loss = loss_fn(model(x_tr[idx]), y_tr[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            logits = model(x_va)
            vloss = loss_fn(logits, y_va).item()
            acc = (logits.argmax(1) == y_va).float().mean().item()
        if epoch % 2 == 1:
            print(f"epoch {epoch + 1:2d}  train {np.mean(losses):.4f}  valid {vloss:.4f}  accuracy {acc:.4f}")


if __name__ == "__main__":
    run(sys.argv[1])
