import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn

SIZE = 5
MOVES = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])


class Warehouse:
    """Robot fetches a bin from a shelf and brings it to the dock; pillars block cells, wheels sometimes slip."""

    pillars = {(1, 1), (3, 3), (1, 3)}

    def __init__(self, seed, horizon=30):
        self.rng = np.random.default_rng(seed)
        self.horizon = horizon
        self.obs = np.zeros(7, dtype=np.float32)

    def free_cell(self):
        while True:
            c = tuple(self.rng.integers(0, SIZE, 2))
            if c not in self.pillars:
                return np.array(c)

    def fill(self):
        target = self.dock if self.loaded else self.shelf
        self.obs[0:2] = self.robot / (SIZE - 1)
        self.obs[2:4] = target / (SIZE - 1)
        self.obs[4:6] = (target - self.robot) / (SIZE - 1)
        self.obs[6] = float(self.loaded)

    def reset(self):
        self.robot, self.shelf, self.dock = self.free_cell(), self.free_cell(), np.array([0, 0])
        self.loaded, self.t = False, 0
        self.fill()
        return self.obs.copy()

    def step(self, action):
        self.t += 1
        if self.rng.random() < 0.05:
            action = self.rng.integers(4)
        cell = self.robot + MOVES[action]
        reward, done = -0.03, False
        if (cell < 0).any() or (cell >= SIZE).any() or tuple(cell) in self.pillars:
            reward = -0.1
        else:
            self.robot = cell
        if not self.loaded and (self.robot == self.shelf).all():
            self.loaded, reward = True, 0.5
        elif self.loaded and (self.robot == self.dock).all():
            reward, done = 1.0, True
        self.fill()
        return self.obs.copy(), reward, done, self.t >= self.horizon


class Agent:
    def __init__(self, gamma=0.95, lr=2e-3):
        self.gamma = gamma
        self.q, self.target = self.net(), self.net()
        self.target.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.Adam(self.q.parameters(), lr=lr)
        self.memory = deque(maxlen=20000)

    @staticmethod
    def net():
        return nn.Sequential(nn.Linear(7, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))

    @torch.no_grad()
    def act(self, obs, eps):
        if random.random() < eps:
            return random.randrange(4)
        return int(self.q(torch.from_numpy(obs)).argmax())

    def learn(self, batch_size=64):
        s, a, r, s2, d = zip(*random.sample(self.memory, batch_size))
        s, s2 = torch.from_numpy(np.stack(s)), torch.from_numpy(np.stack(s2))
        a, r, d = torch.tensor(a), torch.tensor(r), torch.tensor(d, dtype=torch.float32)
        with torch.no_grad():
            best = self.q(s2).argmax(1, keepdim=True)
            goal = r + self.gamma * (1 - d) * self.target(s2).gather(1, best).squeeze(1)
        value = self.q(s).gather(1, a.unsqueeze(1)).squeeze(1)
        loss = nn.functional.smooth_l1_loss(value, goal)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


def evaluate(agent, episodes=40):
    env, delivered = Warehouse(seed=999), 0
    for _ in range(episodes):
        obs, over = env.reset(), False
        while not over:
            obs, _, done, timeout = env.step(agent.act(obs, 0.0))
            over = done or timeout
        delivered += done
    return delivered / episodes


def train(steps=6000, seed=5):
    random.seed(seed)
    torch.manual_seed(seed)
    env, agent, losses = Warehouse(seed), Agent(), []
    obs = env.reset()
    for t in range(1, steps + 1):
        action = agent.act(obs, max(0.1, 1 - t / 3500))
        nxt, reward, done, timeout = env.step(action)
        agent.memory.append((obs, action, reward, nxt, done))
        obs = env.reset() if done or timeout else nxt
        if t > 500 and t % 2 == 0:
            losses.append(agent.learn())
        if t % 200 == 0:
            agent.target.load_state_dict(agent.q.state_dict())
        if t % 1000 == 0:
            print(f"step {t:5d}  td loss {np.mean(losses[-500:]):.4f}  delivered {evaluate(agent):.2f}")


if __name__ == "__main__":
    train()
