"""DQN for a small docking task: steer a drifting craft to a berth within 40 steps."""
import copy
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Docking:
    """State: position, velocity and berth position in the plane."""

    THRUST = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], dtype=np.float32) * 0.06

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.state = None
        self.steps = 0

    def observation(self):
        return self.state

    def reset(self):
        pos = self.rng.uniform(-1, 1, 2)
        berth = self.rng.uniform(-0.8, 0.8, 2)
        self.state = np.concatenate([pos, np.zeros(2), berth]).astype(np.float32)
        self.steps = 0
        return self.observation()

    def _distance(self):
        return float(np.linalg.norm(self.state[:2] - self.state[4:]))

    def step(self, action):
        before = self._distance()
        self.state[2:4] *= 0.8
        self.state[2:4] += self.THRUST[action]
        self.state[:2] += self.state[2:4]
        np.clip(self.state[:2], -1.2, 1.2, out=self.state[:2])
        self.steps += 1
        after = self._distance()
        docked = after < 0.12
        reward = 2.0 * (before - after) - 0.02 + (1.0 if docked else 0.0)
        return self.observation(), reward, docked, self.steps >= 40


class Replay:
    def __init__(self, capacity):
        self.data = deque(maxlen=capacity)

    def push(self, *item):
        self.data.append(item)

    def sample(self, n):
        s, a, r, s2, term = zip(*random.sample(self.data, n))
        return (torch.from_numpy(np.stack(s)), torch.tensor(a),
                torch.tensor(r, dtype=torch.float32),
                torch.from_numpy(np.stack(s2)), torch.tensor(term, dtype=torch.float32))


def build_net():
    return nn.Sequential(nn.Linear(6, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 5))


class Agent:
    def __init__(self, gamma=0.97, lr=1.5e-3):
        self.q = build_net()
        self.target = copy.deepcopy(self.q).requires_grad_(False)
        self.opt = torch.optim.Adam(self.q.parameters(), lr=lr)
        self.gamma = gamma

    @torch.no_grad()
    def act(self, obs, eps=0.0):
        if random.random() < eps:
            return random.randrange(5)
        return int(self.q(torch.from_numpy(obs)).argmax())

    def learn(self, batch):
        s, a, r, s2, term = batch
        q = self.q(s).gather(1, a[:, None]).squeeze(1)
        with torch.no_grad():
            best = self.q(s2).argmax(1, keepdim=True)
            nxt = self.target(s2).gather(1, best).squeeze(1)
            goal = r + self.gamma * (1 - term) * nxt
        loss = F.smooth_l1_loss(q, goal)
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.q.parameters(), 5.0)
        self.opt.step()
        return loss.item()

    def sync(self):
        self.target.load_state_dict(self.q.state_dict())


def evaluate(agent, episodes=25, seed=999):
    env = Docking(seed)
    docked, returns = 0, []
    for _ in range(episodes):
        obs, total = env.reset(), 0.0
        while True:
            obs, reward, term, trunc = env.step(agent.act(obs))
            total += reward
            if term or trunc:
                docked += term
                break
        returns.append(total)
    return docked / episodes, float(np.mean(returns))


def main():
    random.seed(0)
    torch.manual_seed(0)
    env = Docking(seed=0)
    agent = Agent()
    replay = Replay(20000)
    total_steps, warmup = 4500, 400
    obs = env.reset()
    losses, successes, episodes = [], 0, 0
    for step in range(1, total_steps + 1):
        eps = max(0.05, 1.0 - step / 2500)
        action = agent.act(obs, eps)
        nxt, reward, term, trunc = env.step(action)
        replay.push(obs, action, reward, nxt, term)
        obs = nxt
        if term or trunc:
            episodes += 1
            successes += term
            obs = env.reset()
        if step > warmup and step % 2 == 0:
            losses.append(agent.learn(replay.sample(64)))
        if step % 250 == 0:
            agent.sync()
        if step % 750 == 0:
            rate, ret = evaluate(agent)
            print(f"step {step:6d}  eps {eps:.2f}  loss {np.mean(losses[-250:]):.5f}  "
                  f"episodes {episodes}  eval docked {rate:.2f}  eval return {ret:.3f}")
    rate, ret = evaluate(agent, episodes=100, seed=2024)
    print(f"final evaluation: docked {rate:.3f}, mean return {ret:.3f}")


if __name__ == "__main__":
    main()
