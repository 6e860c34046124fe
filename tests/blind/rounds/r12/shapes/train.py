"""Fine-tune a PointNet on scanned shapes, starting from a checkpoint."""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn


class PointNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.local = nn.Sequential(nn.Conv1d(3, 32, 1), nn.ReLU(), nn.Conv1d(32, 64, 1), nn.ReLU(),
                                   nn.Conv1d(64, 96, 1))
        self.head = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, n_classes))

    def forward(self, pts):
        return self.head(self.local(pts.transpose(1, 2)).amax(2))


def spin(pts):
    """Random rotation of every cloud (QR of a Gaussian matrix)."""
    q, r = torch.linalg.qr(torch.randn(len(pts), 3, 3))
    q = q * torch.sign(torch.diagonal(r, dim1=1, dim2=2))[:, None]
    return pts @ q


class FineTune:
    def __init__(self, folder, epochs=14, lr=2e-3, batch=32):
        d = np.load(folder / "scans.npz")
        t = lambda k: torch.from_numpy(d[k])
        self.x, self.y = t("x_train").float(), t("y_train")
        self.xt, self.yt = t("x_test").float(), t("y_test")
        self.epochs, self.batch = epochs, batch
        self.net = PointNet(int(self.y.max()) + 1)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=lr)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, 6, gamma=0.3)
        self.restore(folder / "start.pt")

    def restore(self, path):
        state = torch.load(path, weights_only=True)
        self.net.load_state_dict(state["model"])
        if "optimizer" in state:
            self.opt.load_state_dict(state["optimizer"])
        if "scheduler" in state:
            self.sched.load_state_dict(state["scheduler"])
        print("start from", state.get("source", "?"))

    def epoch(self):
        self.net.train()
        total = 0.0
        for idx in torch.randperm(len(self.y)).split(self.batch):
            pts = spin(self.x[idx])
            loss = nn.functional.cross_entropy(self.net(pts), self.y[idx])
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item() * len(idx)
        self.sched.step()
        return total / len(self.y)

    @torch.no_grad()
    def accuracy(self):
        self.net.eval()
        return (self.net(self.xt).argmax(1) == self.yt).float().mean().item()

    def run(self):
        for k in range(self.epochs):
            print(f"epoch {k + 1:2d} loss {self.epoch():.4f}")
        print(f"test accuracy {self.accuracy():.4f}")


if __name__ == "__main__":
    torch.manual_seed(1)
    FineTune(Path(sys.argv[1])).run()
