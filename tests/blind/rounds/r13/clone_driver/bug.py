"""Behaviour cloning of a scripted controller that parks a point mass on a pad."""
import numpy as np
import torch
from torch import nn

HORIZON = 40


class Lander:
    def __init__(self, rng):
        self.rng = rng
        self.state = np.zeros(6)

    def reset(self):
        self.state = np.concatenate([self.rng.uniform(-3, 3, 2), self.rng.normal(0, 0.3, 2), self.rng.uniform(-2, 2, 2)])
        return self.state

    def step(self, force):
        self.state[2:4] += 0.2 * force + self.rng.normal(0, 0.02, 2)
        self.state[:2] += 0.2 * self.state[2:4]
        return self.state

    def distance(self):
        return float(np.linalg.norm(self.state[:2] - self.state[4:]))


def expert(s):
    return np.clip(2.0 * (s[4:] - s[:2]) - 2.2 * s[2:4], -3, 3)


def demonstrations(n, rng):
    env, obs, acts = Lander(rng), [], []
    for _ in range(n):
        s = env.reset()
        for _ in range(HORIZON):
            a = expert(s)
            obs.append(s)
            acts.append(a)
            s = env.step(a)
    return np.array(obs, np.float32), np.array(acts, np.float32)


def park_error(policy, rng, episodes=60):
    env, out = Lander(rng), []
    for _ in range(episodes):
        s = env.reset()
        for _ in range(HORIZON):
            with torch.no_grad():
                a = policy(torch.from_numpy(s).float()[None])[0].numpy()
            s = env.step(np.clip(a, -3, 3))
        out.append(env.distance())
    return float(np.mean(out))


def train(policy, obs, acts, epochs):
    opt = torch.optim.Adam(policy.parameters(), lr=2e-3)
    loss_fn = nn.SmoothL1Loss()
    for ep in range(epochs):
        policy.train()
        losses = []
        for idx in torch.randperm(len(obs)).split(128):
            loss = loss_fn(policy(obs[idx]), acts[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        if ep % 5 == 4:
            print(f"epoch {ep + 1} imitation loss {np.mean(losses):.4f}")


if __name__ == "__main__":
    torch.manual_seed(8)
    o, a = demonstrations(150, np.random.default_rng(8))
    net = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    train(net, torch.from_numpy(o), torch.from_numpy(a), 20)
    net.eval()
    print("final distance to pad", park_error(net, np.random.default_rng(80)))
