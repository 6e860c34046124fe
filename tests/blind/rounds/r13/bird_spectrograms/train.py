"""Tag short sound clips from log spectrograms. usage: train.py FOLDER"""
import json
import os
import sys
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class FrontEnd:
    def __init__(self, path):
        cfg = json.load(open(path))
        self.n_fft, self.hop = cfg["n_fft"], cfg["hop"]
        self.mean, self.std = cfg["mean"], cfg["std"]
        self.window = torch.hann_window(self.n_fft)

    def __call__(self, wave):
        frames = wave.unfold(1, self.n_fft, self.hop) * self.window
        power = torch.fft.rfft(frames).abs() ** 2
        return ((torch.log(power + 1e-6) - self.mean) / self.std)[:, None]


def net():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Dropout(0.2), nn.LazyLinear(5))


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def main(folder):
    torch.manual_seed(2)
    z = np.load(os.path.join(folder, "clips.npz"))
    fe = FrontEnd(os.path.join(folder, "stats.json"))
    x, y = fe(torch.from_numpy(z["train"]).float()), torch.from_numpy(z["train_tag"])
    xt, yt = fe(torch.from_numpy(z["test"]).float()), torch.from_numpy(z["test_tag"])
    model = net()
    model(x[:1])
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(10):
        model.train()
        tot = 0.0
        for idx in torch.randperm(len(x)).split(35):
            loss = F.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(idx)
        print(f"epoch {epoch} loss {tot / len(x):.4f} test {accuracy(model, xt, yt):.4f}")
    print("final test accuracy", accuracy(model, xt, yt))


main(sys.argv[1])
