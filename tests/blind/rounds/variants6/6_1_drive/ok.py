"""Behaviour cloning of a lane-keeping driver from recorded trips."""
import numpy as np
import torch
from torch import nn


class Road:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.y, self.heading, self.curve = self.rng.normal(0, 0.8), self.rng.normal(0, 0.1), 0.0
        self.speed = self.rng.uniform(0.8, 1.2)
        return self.observe()

    def observe(self):
        return np.array([self.y, self.heading, self.curve, self.speed])

    def step(self, steer):
        steer = float(np.clip(steer, -1, 1))
        self.heading += 0.35 * self.speed * steer - self.curve
        self.y += 0.8 * self.speed * np.sin(self.heading) + self.rng.normal(0, 0.02)
        if self.rng.random() < 0.3:
            self.curve = float(np.clip(self.rng.normal(0, 0.12), -0.25, 0.25))
        return self.observe(), abs(self.y) > 3.0


def driver(obs, rng):
    y, heading, curve, speed = obs
    return np.clip((-0.55 * y - 1.1 * heading + curve) / (0.35 * speed) + rng.normal(0, 0.1), -1, 1)


def record(trips, length, seed):
    road, rng, out = Road(seed), np.random.default_rng(seed + 1), []
    for _ in range(trips):
        obs, rows, acts = road.reset(), [], []
        for _ in range(length):
            a = driver(obs, rng)
            rows.append(obs)
            acts.append(a)
            obs, off = road.step(a)
            if off:
                break
        out.append({"obs": np.array(rows), "steer": np.array(acts)})
    return out


def to_samples(trips):
    xs, ys = [], []
    for trip in trips:
        obs, steer = trip["obs"], trip["steer"]
        delta = np.diff(obs[:, :2], axis=0)
        xs.append(np.concatenate([obs[1:], delta], axis=1))
        ys.append(steer[1:])
    return np.concatenate(xs), np.concatenate(ys)


class Cloner(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32))
        self.net = nn.Sequential(nn.Linear(len(mean), 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(),
                                 nn.Linear(48, 1), nn.Tanh())

    def forward(self, x):
        return self.net((x - self.mean) / self.std).squeeze(-1)


@torch.no_grad()
def drive(model, trips=40, length=60):
    road, errors = Road(1000), []
    for _ in range(trips):
        prev, off = road.reset(), False
        obs, _ = road.step(0.0)
        offset = []
        for _ in range(length):
            if not off:
                x = np.concatenate([obs, obs[:2] - prev[:2]])
                prev = obs
                obs, off = road.step(model(torch.tensor(x, dtype=torch.float32)).item())
            offset.append(3.0 if off else abs(obs[0]))
        errors.append(np.mean(offset))
    return float(np.mean(errors))


def main():
    torch.manual_seed(19)
    train, val = record(90, 60, seed=19), record(20, 60, seed=400)
    x, y = to_samples(train)
    xv, yv = to_samples(val)
    model = Cloner(x.mean(0), x.std(0) + 1e-6)
    x, y, xv, yv = (torch.tensor(v, dtype=torch.float32) for v in (x, y, xv, yv))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(16):
        model.train()
        for idx in torch.randperm(len(x)).split(64):
            loss = nn.functional.mse_loss(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 5 == 0:
            model.eval()
            with torch.no_grad():
                print(f"epoch {epoch} val mse {nn.functional.mse_loss(model(xv), yv).item():.4f}")
    model.eval()
    print(f"mean lane offset when driving: {drive(model):.4f}")


if __name__ == "__main__":
    main()
