"""DQN that parks a cart on a rail: push left, coast, push right."""
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn


class Rail:
    """State (position, velocity); reward is minus the distance to the bay at 0."""

    def __init__(self, seed, horizon=40):
        self.rng = np.random.default_rng(seed)
        self.horizon = horizon

    def reset(self):
        self.t = 0
        self.state = np.array([self.rng.uniform(-1, 1), self.rng.uniform(-0.2, 0.2)], dtype=np.float32)
        return self.state

    def step(self, action):
        self.state[1] = 0.9 * self.state[1] + 0.06 * (action - 1)
        self.state[0] = np.clip(self.state[0] + self.state[1], -1.5, 1.5)
        self.t += 1
        reward = -abs(float(self.state[0])) - 0.1 * abs(float(self.state[1]))
        return self.state, reward, self.t >= self.horizon


class Replay:
    def __init__(self, capacity=20000):
        self.data = deque(maxlen=capacity)

    def push(self, *transition):
        self.data.append(transition)

    def sample(self, n):
        s, a, r, s2 = zip(*random.sample(self.data, n))
        return (torch.from_numpy(np.stack(s)), torch.tensor(a),
                torch.tensor(r, dtype=torch.float32), torch.from_numpy(np.stack(s2)))


class Agent:
    def __init__(self, gamma=0.9, lr=2e-3):
        self.q = self.net()
        self.target = self.net()
        self.target.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.Adam(self.q.parameters(), lr=lr)
        self.gamma = gamma

    @staticmethod
    def net():
        return nn.Sequential(nn.Linear(2, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 3))

    @torch.no_grad()
    def act(self, s, eps):
        if random.random() < eps:
            return random.randrange(3)
        return int(self.q(torch.from_numpy(s)).argmax())

    def learn(self, batch):
        s, a, r, s2 = batch
        with torch.no_grad():   # episodes end by the clock only, so the value is carried past the end
            goal = r + self.gamma * self.target(s2).max(-1).values
        q = self.q(s).gather(1, a[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(q, goal)
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.q.parameters(), 10.0)
        self.opt.step()
        for p, tp in zip(self.q.parameters(), self.target.parameters()):
            tp.data.lerp_(p.data, 0.02)
        return loss.item()


def evaluate(agent, episodes=40):
    env, total = Rail(seed=1000), 0.0
    for _ in range(episodes):
        s, done = env.reset(), False
        while not done:
            s, r, done = env.step(agent.act(s, 0.0))
            total += r
    return total / episodes


def main(episodes=120):
    random.seed(2)
    torch.manual_seed(2)
    env, agent, memory = Rail(seed=2), Agent(), Replay()
    losses = deque(maxlen=200)
    for ep in range(episodes):
        eps = max(0.1, 1 - ep / 60)
        s, done = env.reset(), False
        while not done:
            a = agent.act(s, eps)
            s2, r, done = env.step(a)
            memory.push(s, a, r, s2)
            s = s2
            if len(memory.data) >= 500 and env.t % 2 == 0:
                losses.append(agent.learn(memory.sample(64)))
        if ep % 20 == 19:
            print(f"episode {ep + 1} eps {eps:.2f} loss {np.mean(losses):.4f} return {evaluate(agent, 10):.2f}")
    print(f"mean greedy return {evaluate(agent):.3f}")


main()
