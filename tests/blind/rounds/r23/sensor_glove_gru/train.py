"""Gesture recognition from a glove with five flex sensors and an accelerometer.

usage: train.py FOLDER
"""
import json
import os
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def load(folder):
    with open(os.path.join(folder, "setup.json")) as f:
        setup = json.load(f)
    with open(os.path.join(folder, "calibration.json")) as f:
        calibration = json.load(f)
    with np.load(os.path.join(folder, "recordings.npz")) as z:
        signal, gesture, person = z["signal"].astype(np.float32), z["gesture"], z["person"]
    flex = np.empty_like(signal[:, :, :5])
    for i, p in enumerate(person):
        low = np.array(calibration[p]["open"])
        high = np.array(calibration[p]["closed"])
        flex[i] = (signal[i, :, :5] - low) / (high - low)
    x = np.concatenate([flex, signal[:, :, 5:]], axis=2)
    val = np.isin(person, setup["validation_people"])
    mean = x[~val].mean((0, 1))
    std = x[~val].std((0, 1))
    x = torch.from_numpy(((x - mean) / std).astype(np.float32))
    y = torch.from_numpy(gesture).long()
    val = torch.from_numpy(val)
    return setup, TensorDataset(x[~val], y[~val]), TensorDataset(x[val], y[val])


class GestureNet(nn.Module):
    def __init__(self, channels, hidden, n_classes):
        super().__init__()
        self.gru = nn.GRU(channels, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Dropout(0.3), nn.Linear(2 * hidden, n_classes))

    def forward(self, x):
        h, last = self.gru(x)
        return self.head(torch.cat([h.mean(1), last[-1]], dim=1))


class Trainer:
    def __init__(self, model, setup, train, val):
        self.model, self.setup = model, setup
        self.train_loader = DataLoader(train, batch_size=setup["batch_size"], shuffle=True)
        self.val_loader = DataLoader(val, batch_size=128)
        self.opt = torch.optim.AdamW(model.parameters(), lr=setup["lr"], weight_decay=1e-3)
        self.loss = nn.CrossEntropyLoss()

    def epoch(self):
        self.model.train()
        total, n = 0.0, 0
        for x, y in self.train_loader:
            self.opt.zero_grad()
            loss = self.loss(self.model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.opt.step()
            total, n = total + loss.item() * len(y), n + len(y)
        return total / n

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        total, hits, n = 0.0, 0, 0
        for x, y in self.val_loader:
            out = self.model(x)
            total += self.loss(out, y).item() * len(y)
            hits += (out.argmax(1) == y).sum().item()
            n += len(y)
        return total / n, hits / n

    def fit(self):
        for e in range(self.setup["epochs"]):
            train_loss = self.epoch()
            val_loss, acc = self.validate()
            print("epoch %2d  train %.4f  val %.4f  accuracy on unseen people %.4f" % (e + 1, train_loss, val_loss, acc))


if __name__ == "__main__":
    torch.manual_seed(42)
    np.random.seed(42)
    setup, train, val = load(sys.argv[1])
    net = GestureNet(train.tensors[0].shape[2], setup["hidden"], len(setup["gestures"]))
    Trainer(net, setup, train, val).fit()
