"""FedAvg over five farming regions for maize yield (t/ha). Raw field records never leave the region."""
import copy

import numpy as np
import torch
from torch import nn

REGIONS = ["plains", "coast", "highland", "delta", "semiarid"]
ROUNDS, LOCAL_EPOCHS, LR, BATCH = 30, 2, 0.03, 32


def simulate(region, n, rng):
    centre = {"plains": (0.3, 0.2, 0.4), "coast": (1.0, -0.3, -0.2), "highland": (0.1, -1.4, -0.5),
              "delta": (1.4, 0.8, 1.2), "semiarid": (-1.5, 1.5, -0.6)}[region]
    rain = rng.normal(centre[0], 0.5, n)
    heat = rng.normal(centre[1], 0.5, n)
    soil = rng.normal(centre[2], 0.5, n)
    nitrogen = rng.uniform(-1.5, 1.5, n)
    density = rng.normal(0, 1, n)
    ndvi = 0.6 * rain - 0.3 * heat ** 2 + 0.4 * soil + rng.normal(0, 0.3, n)
    y = (7 + 1.3 * np.tanh(rain) - 0.7 * (heat - 0.2) ** 2 + 0.8 * soil + 0.9 * nitrogen * (rain > -0.5)
         - 0.4 * nitrogen ** 2 - 0.3 * density ** 2 + 0.5 * ndvi + rng.normal(0, 0.4, n))
    x = np.stack([rain, heat, soil, nitrogen, density, ndvi], 1)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y - 7, dtype=torch.float32)


class Client:
    def __init__(self, region, n, rng):
        self.region = region
        x, y = simulate(region, n, rng)
        cut = int(0.8 * n)
        self.train_x, self.train_y = x[:cut], y[:cut]
        self.test_x, self.test_y = x[cut:], y[cut:]

    @property
    def size(self):
        return len(self.train_x)

    def fit(self, model, lr):
        model.train()
        opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        losses = []
        for _ in range(LOCAL_EPOCHS):
            for idx in torch.randperm(self.size).split(BATCH):
                loss = nn.functional.mse_loss(model(self.train_x[idx]).squeeze(1), self.train_y[idx])
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                opt.step()
                losses.append(loss.item())
        return float(np.mean(losses))


class Server:
    def __init__(self, clients):
        self.clients = clients
        self.model = nn.Sequential(nn.Linear(6, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
        self.worker = copy.deepcopy(self.model)

    def aggregate(self, states, sizes):
        total = sum(sizes)
        merged = {}
        for key in states[0]:
            merged[key] = sum(s[key] * (n / total) for s, n in zip(states, sizes))
        self.model.load_state_dict(merged)

    def round(self, lr):
        states, sizes, losses = [], [], []
        for client in self.clients:
            self.worker.load_state_dict(self.model.state_dict())
            losses.append(client.fit(self.worker, lr))
            states.append(copy.deepcopy(self.worker.state_dict()))
            sizes.append(client.size)
        self.aggregate(states, sizes)
        return float(np.mean(losses))

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        err, ys, per = [], [], {}
        for c in self.clients:
            e = (self.model(c.test_x).squeeze(1) - c.test_y) ** 2
            per[c.region] = e.mean().sqrt().item()
            err.append(e)
            ys.append(c.test_y)
        err, ys = torch.cat(err), torch.cat(ys)
        r2 = 1 - err.mean() / ys.var(unbiased=False)
        return err.mean().sqrt().item(), r2.item(), per


def main():
    torch.manual_seed(21)
    rng = np.random.default_rng(21)
    clients = [Client(r, n, rng) for r, n in zip(REGIONS, (700, 500, 450, 400, 550))]
    server = Server(clients)
    for rnd in range(ROUNDS):
        lr = LR * 0.95 ** rnd
        loss = server.round(lr)
        if rnd % 5 == 0 or rnd == ROUNDS - 1:
            rmse, r2, _ = server.evaluate()
            print(f"round {rnd:02d} local loss {loss:.3f} global rmse {rmse:.3f} r2 {r2:.3f}")
    rmse, r2, per = server.evaluate()
    for region, value in per.items():
        print(f"  {region:10s} rmse {value:.3f}")
    print(f"test_rmse {rmse:.4f}")


if __name__ == "__main__":
    main()
