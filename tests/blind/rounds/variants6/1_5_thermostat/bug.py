import argparse

import numpy as np
import torch
import torch.nn as nn


class Room:
    """Room heated by a fixed controller; logging runs are cut after max_steps."""

    def __init__(self, rng, max_steps=25):
        self.rng, self.max_steps = rng, max_steps

    def reset(self):
        self.temp = self.rng.uniform(10, 28)
        self.outside = self.rng.uniform(-5, 15)
        self.steps = 0
        return self.obs()

    def obs(self):
        return np.array([self.temp, self.outside], dtype=np.float32)

    def step(self, heat):
        leak = 0.08 * (self.outside - self.temp)
        self.temp += leak + 1.6 * heat + self.rng.normal(0, 0.15)
        self.outside = np.clip(self.outside + self.rng.normal(0, 0.08), -5, 15)
        self.steps += 1
        comfort = 1.0 - min(1.0, abs(self.temp - 21.0) / 5.0)
        reward = comfort - 0.2 * heat
        terminated = bool(self.temp < 5 or self.temp > 35)
        truncated = self.steps >= self.max_steps
        return self.obs(), reward, terminated, truncated


def controller(obs):
    return float(np.clip(0.5 * (21.5 - obs[0]), 0, 1))


class Value(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.tensor([20.0, 5.0]))
        self.register_buffer("scale", torch.tensor([5.0, 6.0]))
        self.f = nn.Sequential(nn.Linear(2, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 1))

    def forward(self, x):
        return self.f((x - self.shift) / self.scale).squeeze(-1)


def collect(rng, episodes):
    env, log = Room(rng), {k: [] for k in ("obs", "rew", "nxt", "end")}
    for _ in range(episodes):
        obs = env.reset()
        while True:
            nxt, rew, terminated, truncated = env.step(controller(obs))
            log["obs"].append(obs)
            log["rew"].append(rew)
            log["nxt"].append(nxt)
            log["end"].append(terminated or truncated)
            obs = nxt
            if terminated or truncated:
                break
    return {k: torch.tensor(np.array(v), dtype=torch.float32) for k, v in log.items()}


def monte_carlo(rng, gamma, starts=30, horizon=90):
    env = Room(rng, max_steps=horizon)
    xs, gs = [], []
    for _ in range(starts):
        first = env.reset()
        obs, g, disc = first, 0.0, 1.0
        for _ in range(horizon):
            obs, r, terminated, _ = env.step(controller(obs))
            g += disc * r
            disc *= gamma
            if terminated:
                break
        xs.append(first)
        gs.append(g)
    return torch.tensor(np.array(xs)), torch.tensor(gs, dtype=torch.float32)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--gamma", type=float, default=0.9)
    p.add_argument("--updates", type=int, default=1200)
    p.add_argument("--episodes", type=int, default=250)
    a = p.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    data = collect(rng, a.episodes)
    value, target = Value(), Value()
    target.load_state_dict(value.state_dict())
    opt = torch.optim.Adam(value.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, a.updates)
    n = len(data["rew"])
    for u in range(a.updates):
        idx = torch.randint(0, n, (128,))
        b = {k: v[idx] for k, v in data.items()}
        with torch.no_grad():
            y = b["rew"] + a.gamma * (1 - b["end"]) * target(b["nxt"])
        loss = (value(b["obs"]) - y).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        with torch.no_grad():
            for p_, q_ in zip(value.parameters(), target.parameters()):
                q_.mul_(0.95).add_(p_, alpha=0.05)
        if u % 300 == 0:
            print(f"update {u} td loss {loss.item():.4f}")
    xs, gs = monte_carlo(np.random.default_rng(77), a.gamma)
    with torch.no_grad():
        err = (value(xs) - gs).abs().mean()
    print(f"mean return {gs.mean():.3f}; mean abs value error: {err:.3f}")


if __name__ == "__main__":
    main()
