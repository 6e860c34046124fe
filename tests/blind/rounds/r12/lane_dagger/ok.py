"""Learning to steer a cart along a winding lane from a planner, by dataset aggregation."""
import math

import numpy as np
import torch
import torch.nn as nn


class Lane:
    """State: offset to the centre line, heading error, speed, curvature ahead. Action: steer, throttle."""

    dt = 0.1

    def __init__(self, rng):
        self.rng = rng

    def reset(self, wide):
        k = 1.0 if wide else 0.02
        self.y = self.rng.uniform(-5, 5) * k
        self.psi = self.rng.uniform(-2.5, 2.5) * k
        self.v = self.rng.uniform(1.0, 1.0 + 2 * k)
        self.phase = self.rng.uniform(0, 2 * math.pi)
        self.t = 0
        return self.obs()

    def curvature(self, ahead=0.0):
        return 0.3 * math.sin(0.25 * (self.t * self.dt + ahead) + self.phase)

    def obs(self):
        return np.array([self.y, math.sin(self.psi), math.cos(self.psi), self.v,
                         self.curvature(), self.curvature(1.0)], np.float32)

    def step(self, a):
        steer, throttle = np.clip(a, -1, 1)
        self.v = max(0.2, self.v + self.dt * (1.5 * throttle - 0.2 * self.v))
        self.psi += self.dt * self.v * (steer - self.curvature()) + self.rng.normal(0, 0.02)
        self.y = float(np.clip(self.y + self.dt * self.v * math.sin(self.psi), -8, 8))
        self.t += 1
        return self.obs()


def planner(env):
    want = -math.atan(0.9 * env.y)
    err = math.atan2(math.sin(want - env.psi), math.cos(want - env.psi))
    steer = math.tanh(1.8 * err + env.curvature())
    target = 2.2 - 1.2 * min(1.0, abs(env.y)) - 2.0 * abs(env.curvature(1.0))
    return np.array([steer, math.tanh(1.5 * (target - env.v) + 0.2 * env.v)], np.float32)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 2))

    def forward(self, s):
        return torch.tanh(self.net(s))

    @torch.no_grad()
    def act(self, s):
        return self(torch.from_numpy(s)[None])[0].numpy()


def collect(env, policy, beta, episodes, steps, rng, wide):
    states, actions = [], []
    for _ in range(episodes):
        s = env.reset(wide)
        for _ in range(steps):
            expert = planner(env)
            action = expert if rng.random() < beta else policy.act(s)
            states.append(s)
            actions.append(expert)
            s = env.step(action)
    return states, actions


def fit(policy, opt, states, actions, passes):
    s = torch.from_numpy(np.stack(states))
    a = torch.from_numpy(np.stack(actions))
    policy.train()
    for _ in range(passes):
        total = 0.0
        for idx in torch.randperm(len(s)).split(64):
            loss = nn.functional.smooth_l1_loss(policy(s[idx]), a[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
    return total / len(s)


def mean_cost(env, policy, episodes=30, steps=100):
    policy.eval()
    cost = 0.0
    for _ in range(episodes):
        s = env.reset(True)
        for k in range(steps):
            s = env.step(policy.act(s))
            if k >= steps // 2:
                cost += min(abs(env.y), 3.0)
    return cost / (episodes * (steps - steps // 2))


if __name__ == "__main__":
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    env = Lane(rng)
    policy = Policy()
    opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
    S, A = collect(env, policy, 1.0, 8, 60, rng, wide=False)
    print(f"demonstrations {len(S)}  loss {fit(policy, opt, S, A, 20):.5f}")
    for k in range(6):
        s, a = collect(env, policy, 0.0, 10, 60, rng, wide=True)
        S, A = S + s, A + a
        print(f"iteration {k}  data {len(S)}  loss {fit(policy, opt, S, A, 12):.5f}")
    print(f"mean offset on fresh lanes, second half of the drive, {mean_cost(Lane(np.random.default_rng(99)), policy):.4f}")
