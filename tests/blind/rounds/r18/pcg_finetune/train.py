"""Continues the training of the heart sound network from a checkpoint (network and optimizer)."""
import json
import os
import sys

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F


class HeartNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.conv1 = nn.Conv1d(1, 12, 15, padding=7)
        self.conv2 = nn.Conv1d(12, 24, 9, padding=4)
        self.conv3 = nn.Conv1d(24, 24, 5, padding=2)
        self.fc = nn.Linear(24 * 5, n_classes)

    def forward(self, x):
        x = F.avg_pool1d(F.relu(self.conv1(x)), 5)
        x = F.avg_pool1d(F.relu(self.conv2(x)), 5)
        x = F.avg_pool1d(F.relu(self.conv3(x)), 2)
        return self.fc(x.flatten(1))


def main(d):
    cfg = json.load(open(os.path.join(d, "finetune.json")))
    torch.manual_seed(29)
    z = np.load(os.path.join(d, "cycles.npz"))
    x, y, test = torch.from_numpy(z["wave"])[:, None], torch.from_numpy(z["label"]), torch.from_numpy(z["test"])
    xtr, ytr, xte, yte = x[~test], y[~test], x[test], y[test]

    net = HeartNet(len(cfg["classes"]))
    opt = torch.optim.Adam(net.parameters(), lr=cfg["lr"])
    ckpt = torch.load(os.path.join(d, cfg["checkpoint"]))
    net.load_state_dict(ckpt["model"])
    opt.load_state_dict(ckpt["optimizer"])
    print("continuing from", ckpt["note"])

    for epoch in range(cfg["epochs"]):
        net.train()
        total, right = 0.0, 0
        for i in torch.randperm(len(xtr)).split(cfg["batch"]):
            out = net(xtr[i])
            loss = F.cross_entropy(out, ytr[i])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(i)
            right += (out.argmax(1) == ytr[i]).sum().item()
        print(f"epoch {epoch} loss {total / len(xtr):.4f} train accuracy {right / len(xtr):.3f}")
    net.eval()
    with torch.no_grad():
        acc = (net(xte).argmax(1) == yte).float().mean().item()
    print(f"test accuracy {acc:.4f}")


main(sys.argv[1])
