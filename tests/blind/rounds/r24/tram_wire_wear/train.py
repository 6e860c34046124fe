"""Wear of the contact wire (mm) per section of a tram network."""
import configparser
import math
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn


def read_table(path, log_columns):
    with open(path) as f:
        names = f.readline().rstrip("\n").split("\t")
        table = np.loadtxt(f, delimiter="\t", dtype=np.float64)
    for c in log_columns:
        table[:, names.index(c)] = np.log1p(table[:, names.index(c)])
    return table[:, :-1], table[:, -1]


def make_net(inputs, cfg):
    width, layers = cfg.getint("width"), []
    for i in range(cfg.getint("depth")):
        layers += [nn.Linear(inputs if i == 0 else width, width), nn.GELU(), nn.Dropout(cfg.getfloat("dropout"))]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def lr_curve(warmup, total):
    def factor(step):
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))
    return factor


def main(folder):
    ini = configparser.ConfigParser()
    ini.read(folder / "settings.ini")
    data, hp = ini["data"], ini["training"]
    logs = [c.strip() for c in data["log_columns"].split(",")]
    torch.manual_seed(hp.getint("seed"))

    xt, yt = read_table(folder / data["train"], logs)
    xv, yv = read_table(folder / data["valid"], logs)
    mx, sx, my, sy = xt.mean(0), xt.std(0), yt.mean(), yt.std()
    xt, xv = (torch.tensor((x - mx) / sx, dtype=torch.float32) for x in (xt, xv))
    zt = torch.tensor((yt - my) / sy, dtype=torch.float32).unsqueeze(1)

    net = make_net(xt.shape[1], ini["model"])
    batch, epochs = hp.getint("batch_size"), hp.getint("epochs")
    total = epochs * math.ceil(len(xt) / batch)
    opt = torch.optim.AdamW(net.parameters(), lr=hp.getfloat("learning_rate"), weight_decay=hp.getfloat("weight_decay"))
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lr_curve(hp.getint("warmup_steps"), total))

    for epoch in range(1, epochs + 1):
        net.train()
        running = 0.0
        for rows in torch.randperm(len(xt)).split(batch):
            opt.zero_grad()
            loss = nn.functional.mse_loss(net(xt[rows]), zt[rows])
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), hp.getfloat("clip_norm"))
            opt.step()
            sched.step()
            running += loss.item() * len(rows)
        if epoch % 3 == 0:
            net.eval()
            with torch.no_grad():
                wear = net(xv).squeeze(1).numpy() * sy + my
            print(f"epoch {epoch:2d}/{epochs}  train mse {running / len(xt):.4f}  valid MAE {np.abs(wear - yv).mean():.3f} mm")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
