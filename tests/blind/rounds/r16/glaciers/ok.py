"""Glacier thickness from radar echoes. Long job, so it runs in two allocations with a checkpoint between."""
import os
import tempfile
import torch
import torch.nn as nn


class ThicknessNet(nn.Module):
    def __init__(self, gates=32):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(gates, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1))

    def forward(self, echo):
        return self.f(echo).squeeze(-1)


def echoes(n, gates=32):
    depth = torch.rand(n)
    slope = torch.randn(n) * 0.3
    g = torch.linspace(0, 1, gates)
    signal = torch.exp(-((g - depth[:, None]) / 0.06) ** 2) * (1 - 0.5 * depth[:, None])
    signal = signal + slope[:, None] * g + 0.15 * torch.randn(n, gates)
    return signal, depth


class Job:
    def __init__(self, data, lr=2e-3):
        self.x, self.y = data
        self.epoch = 0
        self.net = ThicknessNet()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=lr)

    def save(self, path):
        torch.save({"net": self.net.state_dict(), "opt": self.opt.state_dict(), "epoch": self.epoch}, path)

    def resume(self, path):
        state = torch.load(path)
        self.net.load_state_dict(state["net"])
        self.opt.load_state_dict(state["opt"])
        self.epoch = state["epoch"]

    def work(self, until):
        while self.epoch < until:
            total = 0.0
            for rows in torch.randperm(len(self.x)).split(64):
                loss = nn.functional.mse_loss(self.net(self.x[rows]), self.y[rows])
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                total += loss.item() * len(rows)
            self.epoch += 1
            print(f"epoch {self.epoch} mse {total / len(self.x):.5f}")

    @torch.no_grad()
    def rmse(self, x, y):
        return (self.net(x) - y).pow(2).mean().sqrt().item()


def main():
    torch.manual_seed(43)
    train, test = echoes(1280), echoes(500)
    path = os.path.join(tempfile.mkdtemp(), "job.pt")
    first = Job(train)
    first.work(until=1)
    first.save(path)

    second = Job(train)
    second.resume(path)
    second.work(until=15)
    print(f"test RMSE {second.rmse(*test):.4f} (relative depth)")


if __name__ == "__main__":
    main()
