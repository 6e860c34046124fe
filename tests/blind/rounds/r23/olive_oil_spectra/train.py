# free acidity of olive oils from NIR spectra, on top of an encoder pretrained on composition data
import configparser
import os
import sys
from collections import OrderedDict

import numpy as np
import torch
import torch.nn as nn


def load_config(folder):
    ini = configparser.ConfigParser()
    ini.read(os.path.join(folder, "run.ini"))
    return ini["run"]


def load_oils(folder):
    z = np.load(os.path.join(folder, "oils.npz"))
    tr = z["split"] == "train"
    s, a = z["spectra"], z["acidity"]
    s = (s - s[tr].mean()) / s[tr].std()
    x = torch.from_numpy(s).unsqueeze(1)
    y = torch.from_numpy(a)
    return x[tr], y[tr], x[~tr], y[~tr]


class AcidityNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(OrderedDict(
            conv1=nn.Conv1d(1, 16, 7, stride=2, padding=3), act1=nn.GELU(),
            conv2=nn.Conv1d(16, 24, 5, stride=2, padding=2), act2=nn.GELU(),
            flat=nn.Flatten(), proj=nn.Linear(24 * 24, 48), act3=nn.GELU()))
        self.head = nn.Sequential(nn.Linear(48, 32), nn.GELU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.head(self.encoder(x)).squeeze(1)


def build(folder):
    net = AcidityNet()
    ckpt = torch.load(os.path.join(folder, "encoder.pt"), map_location="cpu")
    net.load_state_dict(ckpt["model"], strict=False)  # the head is new
    return net


def mae(net, x, y, shift, scale):
    net.eval()
    with torch.no_grad():
        return (net(x) * scale + shift - y).abs().mean().item()


def main(folder):
    cfg = load_config(folder)
    torch.manual_seed(cfg.getint("seed"))
    xt, yt, xv, yv = load_oils(folder)
    shift, scale = yt.mean(), yt.std()
    target = (yt - shift) / scale

    net = build(folder)
    opt = torch.optim.AdamW(
        [{"params": net.head.parameters()},
         {"params": net.encoder.parameters(), "lr": cfg.getfloat("encoder_lr")}],
        lr=cfg.getfloat("lr"), weight_decay=cfg.getfloat("weight_decay"))
    epochs = cfg.getint("epochs")
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)

    for epoch in range(1, epochs + 1):
        net.train()
        seen = 0.0
        for idx in torch.randperm(len(xt)).split(cfg.getint("batch")):
            loss = nn.functional.mse_loss(net(xt[idx]), target[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            seen += loss.item() * len(idx)
        sched.step()
        if epoch % 10 == 0:
            print(f"{epoch:3d}  mse {seen / len(xt):.4f}  valid MAE {mae(net, xv, yv, shift, scale):.4f} %")
    print(f"validation MAE of acidity: {mae(net, xv, yv, shift, scale):.4f} % "
          f"(spread of validation values {yv.std():.3f} %)")


if __name__ == "__main__":
    main(sys.argv[1])
