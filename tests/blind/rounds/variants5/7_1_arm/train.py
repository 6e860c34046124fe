"""Learns the inverse dynamics of a two-joint arm."""
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn


def read_env(path):
    pairs = (line.split("=", 1) for line in path.read_text().splitlines() if "=" in line and not line.startswith("#"))
    return {k.strip(): v.strip() for k, v in pairs}


def setup(env):
    torch.set_num_threads(int(env["ARM_THREADS"]))
    torch.set_default_dtype(getattr(torch, env["ARM_DTYPE"]))
    torch.manual_seed(int(env["ARM_SEED"]))


def tensor(array):
    return torch.from_numpy(array).to(torch.get_default_dtype())


class DynamicsNet(nn.Module):
    def __init__(self, d_in, d_out, width):
        super().__init__()
        self.l1 = nn.Linear(d_in, width)
        self.l2 = nn.Linear(width, width)
        self.l3 = nn.Linear(width, d_out)

    def forward(self, x):
        return self.l3(torch.tanh(self.l2(torch.tanh(self.l1(x)))))


class Experiment:
    def __init__(self, folder):
        self.env = read_env(folder / "settings.env")
        setup(self.env)
        log = np.load(folder / "trajectories.npz")
        runs = log["run"]
        q = (tensor(log["counts"]) - tensor(log["zero"])) * (2 * np.pi / int(self.env["ARM_COUNTS_PER_TURN"]))
        x = torch.cat([q.sin(), q.cos(), tensor(log["dq"]), tensor(log["ddq"])], dim=1)
        y = log["torque"]
        ids = np.random.default_rng(int(self.env["ARM_SEED"])).permutation(np.unique(runs))
        cut = (int(0.7 * len(ids)), int(0.85 * len(ids)))
        rows = [np.flatnonzero(np.isin(runs, part)) for part in np.split(ids, cut)]
        self.xm, self.xs = x[rows[0]].mean(0), x[rows[0]].std(0)
        self.ym, self.ys = y[rows[0]].mean(0), y[rows[0]].std(0)
        self.parts = [((x[r] - self.xm) / self.xs, tensor((y[r] - self.ym) / self.ys)) for r in rows]
        self.net = DynamicsNet(x.shape[1], y.shape[1], int(self.env["ARM_WIDTH"]))

    def rmse(self, x, y):
        self.net.eval()
        with torch.no_grad():
            err = (self.net(x).double() - y.double()).numpy() * self.ys
        return float(np.sqrt((err ** 2).mean()))

    def fit(self):
        epochs, size = int(self.env["ARM_EPOCHS"]), int(self.env["ARM_BATCH"])
        opt = torch.optim.Adam(self.net.parameters(), lr=float(self.env["ARM_LR"]))
        sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
        x, y = self.parts[0]
        for epoch in range(1, epochs + 1):
            self.net.train()
            for rows in torch.randperm(len(x)).split(size):
                opt.zero_grad()
                loss = nn.functional.mse_loss(self.net(x[rows]), y[rows])
                loss.backward()
                opt.step()
            sched.step()
            if epoch % 5 == 0:
                print(f"epoch {epoch} loss {loss.item():.5f} valid rmse {self.rmse(*self.parts[1]):.4f} Nm")
        print(f"test rmse {self.rmse(*self.parts[2]):.5f} Nm")


if __name__ == "__main__":
    Experiment(Path(sys.argv[1])).fit()
