import copy
import torch
from torch import nn


def friedman(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 8, generator=g)
    y = 10 * torch.sin(3.14159 * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return x * 2 - 1, (y - 14.4) / 4.9


class Average:
    """Running mean of the weights of the last snapshots."""

    def __init__(self, model):
        self.model = copy.deepcopy(model)
        self.count = 0

    @torch.no_grad()
    def add(self, model):
        self.count += 1
        for a, p in zip(self.model.parameters(), model.parameters()):
            a.add_((p - a) / self.count)


class Run:
    def __init__(self, width=64, lr=2e-3):
        self.model = nn.Sequential(nn.Linear(8, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))
        self.opt = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.loss = nn.HuberLoss()
        self.average = Average(self.model)

    def epoch(self, x, y, batch=100):
        self.model.train()
        values = []
        for idx in torch.randperm(len(x)).split(batch):
            self.opt.zero_grad()
            loss = self.loss(self.model(x[idx]).squeeze(1), y[idx])
            loss.backward()
            self.opt.step()
            values.append(loss.item())
        self.average.add(self.model)
        return sum(values) / len(values)

    def take_average(self):
        self.model = copy.deepcopy(self.average.model)

    def rmse(self, x, y):
        self.model.eval()
        with torch.no_grad():
            return (self.model(x).squeeze(1) - y).pow(2).mean().sqrt().item()


def main(epochs=18, warm=3):
    torch.manual_seed(0)
    data, valid = friedman(2000, 1), friedman(500, 2)
    run = Run()
    for e in range(epochs):
        if e == warm:
            run.take_average()
        loss = run.epoch(*data)
        if e % 3 == 2:
            print(f"epoch {e} loss {loss:.4f} valid rmse {run.rmse(*valid):.4f}")


if __name__ == "__main__":
    main()
