import argparse
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class PointMass:
    """1-d mass with friction, pushed towards a goal position."""

    def __init__(self, seed, horizon=40):
        self.rng = np.random.default_rng(seed)
        self.horizon = horizon

    def reset(self):
        self.x = self.rng.uniform(-2.0, 2.0)
        self.v = self.rng.normal(0, 0.2)
        self.goal = self.rng.uniform(-1.0, 1.0)
        self.t = 0
        return self._obs()

    def _obs(self):
        return np.array([self.x, self.v, self.goal, self.goal - self.x], dtype=np.float32)

    def step(self, a):
        a = float(np.clip(a, -1, 1))
        self.v = 0.9 * self.v + 0.25 * a
        self.x = self.x + 0.4 * self.v
        self.t += 1
        reward = -abs(self.x - self.goal) - 0.02 * a * a
        return self._obs(), reward, self.t >= self.horizon


class Replay:
    def __init__(self, size, obs_dim):
        self.s = np.zeros((size, obs_dim), np.float32)
        self.s2 = np.zeros((size, obs_dim), np.float32)
        self.a = np.zeros((size, 1), np.float32)
        self.r = np.zeros((size, 1), np.float32)
        self.n, self.ptr, self.size = 0, 0, size

    def add(self, s, a, r, s2):
        i = self.ptr
        self.s[i], self.a[i], self.r[i], self.s2[i] = s, a, r, s2
        self.ptr = (i + 1) % self.size
        self.n = min(self.n + 1, self.size)

    def sample(self, rng, k):
        idx = rng.integers(0, self.n, k)
        return [torch.from_numpy(z[idx]) for z in (self.s, self.a, self.r, self.s2)]


def mlp(i, o, last=None):
    layers = [nn.Linear(i, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, o)]
    return nn.Sequential(*layers, last) if last is not None else nn.Sequential(*layers)


class Agent:
    def __init__(self, obs_dim, gamma=0.95, tau=0.02):
        self.actor = mlp(obs_dim, 1, nn.Tanh())
        self.critic = mlp(obs_dim + 1, 1)
        self.actor_t, self.critic_t = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.opt_a = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=2e-3)
        self.gamma, self.tau = gamma, tau

    @torch.no_grad()
    def act(self, obs):
        return self.actor(torch.from_numpy(obs)).numpy()

    def update(self, s, a, r, s2):
        with torch.no_grad():
            target = r + self.gamma * self.critic_t(torch.cat([s2, self.actor_t(s2)], 1))
        loss_c = F.mse_loss(self.critic(torch.cat([s, a], 1)), target)
        self.opt_c.zero_grad()
        loss_c.backward()
        self.opt_c.step()
        loss_a = -self.critic(torch.cat([s, self.actor(s)], 1)).mean()
        self.opt_a.zero_grad()
        loss_a.backward()
        self.opt_a.step()
        with torch.no_grad():
            for net, tgt in ((self.actor, self.actor_t), (self.critic, self.critic_t)):
                for p, q in zip(net.parameters(), tgt.parameters()):
                    q.lerp_(p, self.tau)
        return loss_c.item()


def evaluate(agent, episodes=60):
    env, total = PointMass(seed=999), 0.0
    for _ in range(episodes):
        s, done = env.reset(), False
        while not done:
            s, r, done = env.step(agent.act(s)[0])
            total += r
    return total / episodes


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=3200)
    ap.add_argument("--noise", type=float, default=0.4)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    env, agent, buf = PointMass(args.seed), Agent(4), Replay(10000, 4)
    s = env.reset()
    for step in range(args.steps):
        action = agent.act(s)
        noisy = np.clip(action + rng.normal(0, args.noise, 1), -1, 1)
        s2, r, done = env.step(noisy[0])
        buf.add(s, action, r, s2)
        s = env.reset() if done else s2
        if step > 300:
            loss = agent.update(*buf.sample(rng, 64))
            if step % 800 == 799:
                print(f"step {step + 1} critic loss {loss:.4f}")
    print(f"mean episode return: {evaluate(agent):.3f}")


if __name__ == "__main__":
    main()
