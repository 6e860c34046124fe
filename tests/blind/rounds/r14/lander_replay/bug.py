"""Small DQN that parks a shuttle on a pad."""
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn


class Shuttle:
    """One-dimensional shuttle: position and velocity, three thrusts, goal at the origin."""

    thrust = (-0.08, 0.0, 0.08)

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.state = np.zeros(2, dtype=np.float32)
        self.t = 0

    def reset(self):
        self.state = np.array([self.rng.uniform(-1, 1), self.rng.uniform(-0.1, 0.1)], dtype=np.float32)
        self.t = 0
        return self.state.copy()

    def step(self, action):
        self.state[1] = 0.95 * self.state[1] + self.thrust[action]
        self.state[0] += self.state[1]
        self.t += 1
        pos, vel = self.state
        crashed = abs(pos) > 1.5
        reward = -abs(float(pos)) - 0.2 * abs(float(vel)) - (5.0 if crashed else 0.0)
        return self.state, reward, crashed, self.t >= 30


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 3))

    def forward(self, s):
        return self.net(s)


def learn(q, target, buffer, opt, gamma=0.95, batch=64):
    s, a, r, s2, d = zip(*random.sample(buffer, batch))
    s = torch.from_numpy(np.stack(s))
    s2 = torch.from_numpy(np.stack(s2))
    a = torch.tensor(a).unsqueeze(1)
    r = torch.tensor(r)
    d = torch.tensor(d, dtype=torch.float32)
    with torch.no_grad():
        goal = r + gamma * (1 - d) * target(s2).max(1).values
    loss = nn.functional.smooth_l1_loss(q(s).gather(1, a).squeeze(1), goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def play(q, env, episodes=40):
    total = 0.0
    for _ in range(episodes):
        s, over = env.reset(), False
        while not over:
            with torch.no_grad():
                a = q(torch.from_numpy(s)).argmax().item()
            s, r, crashed, timeout = env.step(a)
            total += r
            over = crashed or timeout
    return total / episodes


def main():
    random.seed(5)
    torch.manual_seed(5)
    env = Shuttle(5)
    q, target = QNet(), QNet()
    target.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), lr=1e-3)
    buffer = deque(maxlen=5000)
    step = 0
    for ep in range(90):
        s = env.reset()
        eps = max(0.05, 1 - ep / 45)
        over = False
        while not over:
            if random.random() < eps:
                a = random.randrange(3)
            else:
                with torch.no_grad():
                    a = q(torch.from_numpy(s)).argmax().item()
            s2, r, crashed, timeout = env.step(a)
            buffer.append((s, a, r, s2, crashed))
            s = s2
            over = crashed or timeout
            step += 1
            if len(buffer) >= 300 and step % 2 == 0:
                loss = learn(q, target, buffer, opt)
            if step % 200 == 0:
                target.load_state_dict(q.state_dict())
        if ep % 30 == 29:
            print(f"episode {ep + 1} eps {eps:.2f} td-loss {loss:.4f}")
    print(f"mean return of the greedy policy {play(q, Shuttle(99)):.2f}")


if __name__ == "__main__":
    main()
