"""PINN for the Poisson problem  -lap(u) = f  on the unit square, u = 0 on the border.

usage: python train.py FOLDER      (FOLDER holds collocation.csv and config.json)
"""
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn


def exact(xy):
    return torch.sin(math.pi * xy[:, :1]) * torch.sin(math.pi * xy[:, 1:])


def source(xy):
    return 2 * math.pi ** 2 * exact(xy)


class SolutionNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                 nn.Linear(width, 1))

    def forward(self, xy):
        return self.net(2 * xy - 1)


def laplacian(model, xy):
    xy = xy.clone().requires_grad_(True)
    u = model(xy)
    g = torch.autograd.grad(u.sum(), xy, create_graph=True)[0]
    u_xx = torch.autograd.grad(g[:, 0].sum(), xy, create_graph=True)[0][:, :1]
    u_yy = torch.autograd.grad(g[:, 1].sum(), xy, create_graph=True)[0][:, 1:]
    return u_xx + u_yy


def border_points(n):
    s = torch.rand(n, 1)
    side = torch.randint(0, 2, (n, 1)).float()
    horizontal = torch.rand(n, 1) < 0.5
    return torch.where(horizontal, torch.cat([s, side], 1), torch.cat([side, s], 1))


@torch.no_grad()
def relative_error(model):
    model.eval()
    axis = torch.linspace(0, 1, 41)
    grid = torch.cartesian_prod(axis, axis)
    err = (model(grid) - exact(grid)).norm() / exact(grid).norm()
    model.train()
    return err.item()


def main(folder):
    cfg = json.loads((folder / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    points = torch.tensor(np.loadtxt(folder / "collocation.csv", delimiter=",", skiprows=1), dtype=torch.float32)
    print(f"{len(points)} collocation points")

    model = SolutionNet(cfg["width"])
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg["epochs"])
    for epoch in range(1, cfg["epochs"] + 1):
        total = 0.0
        batches = torch.randperm(len(points)).split(cfg["batch"])
        for idx in batches:
            xy = points[idx]
            pde = (laplacian(model, xy) + source(xy)).pow(2).mean()
            edge = model(border_points(cfg["batch"])).pow(2).mean()
            loss = pde + cfg["w_border"] * edge
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        sched.step()
        if epoch % 15 == 0:
            print(f"epoch {epoch:3d}  loss {total / len(batches):.5f}  rel. error {relative_error(model):.4f}")
    print(f"final relative L2 error on the 41x41 grid: {relative_error(model):.4f}")
    centre = torch.tensor([[0.5, 0.5]])
    print(f"u(0.5, 0.5) = {model(centre).item():.4f}   exact {exact(centre).item():.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
