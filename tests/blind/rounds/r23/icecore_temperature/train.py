import configparser
import os
import sys

import numpy as np
import torch
import torch.nn as nn


def read_cfg(folder):
    cp = configparser.ConfigParser()
    cp.read(os.path.join(folder, "run.ini"))
    return cp


def as_list(txt):
    return [w.strip() for w in txt.split(",")]


def load_core(folder, cp):
    names = as_list(cp["data"]["inputs"])
    X, y = [], []
    for seg in as_list(cp["data"]["segments"]):
        with np.load(os.path.join(folder, seg + ".npz")) as z:
            X.append(np.stack([z[c].astype(np.float64) for c in names], axis=1))
            y.append(z[cp["data"]["target"]].astype(np.float64))
    return np.concatenate(X), np.concatenate(y)


def split_rows(n, share, rng):
    p = rng.permutation(n)
    nv = int(n * share)
    return p[nv:], p[:nv]


def tensors(X, y, tr, va):
    mx, sx = X[tr].mean(0), X[tr].std(0)
    my, sy = y[tr].mean(), y[tr].std()
    Xs = torch.tensor((X - mx) / sx, dtype=torch.float32)
    ys = torch.tensor((y - my) / sy, dtype=torch.float32)
    return Xs[tr], ys[tr], Xs[va], ys[va], float(sy)


def mlp(d, h, p):
    return nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Dropout(p),
                         nn.Linear(h, h), nn.ReLU(), nn.Dropout(p),
                         nn.Linear(h, 1), nn.Flatten(0))


def train(folder):
    cp = read_cfg(folder)
    o = cp["optim"]
    torch.manual_seed(o.getint("seed"))
    rng = np.random.default_rng(o.getint("seed"))
    X, y = load_core(folder, cp)
    tr, va = split_rows(len(X), cp["data"].getfloat("val_share"), rng)
    xt, yt, xv, yv, sy = tensors(X, y, tr, va)
    net = mlp(X.shape[1], cp["model"].getint("hidden"), cp["model"].getfloat("dropout"))
    opt = torch.optim.AdamW(net.parameters(), lr=o.getfloat("lr"), weight_decay=o.getfloat("weight_decay"))
    epochs = o.getint("epochs")
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=epochs)
    for ep in range(1, epochs + 1):
        net.train()
        s = 0.0
        for b in torch.randperm(len(xt)).split(o.getint("batch")):
            opt.zero_grad()
            loss = nn.functional.mse_loss(net(xt[b]), yt[b])
            loss.backward()
            opt.step()
            s += loss.item() * len(b)
        sched.step()
        net.eval()
        with torch.no_grad():
            err = (net(xv) - yv) * sy
        print("ep %2d  train %.4f  val MAE %.3f K  val RMSE %.3f K"
              % (ep, s / len(xt), err.abs().mean().item(), err.pow(2).mean().sqrt().item()))


if __name__ == "__main__":
    train(sys.argv[1])
