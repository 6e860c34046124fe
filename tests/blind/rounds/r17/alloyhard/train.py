import csv
import json
import sys

import torch
from torch import nn

ACT = {"relu": nn.ReLU, "silu": nn.SiLU, "tanh": nn.Tanh}


def table(path):
    with open(path) as f:
        rows = list(csv.reader(f))
    t = torch.tensor([[float(v) for v in r] for r in rows[1:]])
    x, y = t[:, :-1].clone(), t[:, -1]
    j = rows[0].index("cooling_rate")
    x[:, j] = x[:, j].log()
    return x, y


def build(cfg, d):
    layers = []
    for h in cfg["hidden"]:
        layers += [nn.Linear(d, h), ACT[cfg["activation"]]()]
        d = h
    return nn.Sequential(*layers, nn.Linear(d, 1))


def main(folder):
    with open(f"{folder}/config.json") as f:
        cfg = json.load(f)
    torch.manual_seed(cfg["seed"])
    x, y = table(f"{folder}/steels_train.csv")
    xt, yt = table(f"{folder}/steels_test.csv")
    mx, sx, my, sy = x.mean(0), x.std(0), y.mean(), y.std()
    x, xt, yn = (x - mx) / sx, (xt - mx) / sx, (y - my) / sy

    net = build(cfg["model"], x.shape[1])
    o = cfg["optim"]
    opt = torch.optim.SGD(net.parameters(), lr=o["lr"], momentum=o["momentum"], weight_decay=o["weight_decay"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg["epochs"])
    for epoch in range(cfg["epochs"]):
        tot = 0.0
        for ix in torch.randperm(len(x)).split(cfg["batch_size"]):
            loss = nn.functional.mse_loss(net(x[ix]).squeeze(1), yn[ix])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), o["grad_clip"])
            opt.step()
            tot += loss.item() * len(ix)
        sched.step()
        if (epoch + 1) % 5 == 0:
            print(f"epoch {epoch + 1:3d}  mse {tot / len(x):.4f}")
    with torch.no_grad():
        rmse = ((net(xt).squeeze(1) * sy + my - yt) ** 2).mean().sqrt().item()
    print(f"test RMSE {rmse:.2f} HV (spread of the test set {yt.std():.1f} HV)")


if __name__ == "__main__":
    main(sys.argv[1])
