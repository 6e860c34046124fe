import random

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

random.seed(0)
np.random.seed(0)
torch.manual_seed(34)
MOVES = np.array([[0.0, 0.1], [0.0, -0.1], [0.1, 0.0], [-0.1, 0.0]])
GOAL = np.array([0.6, -0.4])


class Field:
    """A point on the square [-1, 1]^2 that should walk to the goal."""

    def reset(self):
        self.pos = np.random.uniform(-1, 1, 2)
        self.t = 0
        return self._obs()

    def _obs(self):
        return self.pos

    def step(self, action):
        before = np.abs(self.pos - GOAL).sum()
        self.pos += MOVES[action] + 0.01 * np.random.randn(2)
        np.clip(self.pos, -1, 1, out=self.pos)
        self.t += 1
        reward = 10 * (before - np.abs(self.pos - GOAL).sum())
        return self._obs(), float(reward), self.t >= 25


def collect(env, episodes):
    memory = []
    for _ in range(episodes):
        obs, done = env.reset(), False
        while not done:
            action = random.randrange(4)
            nxt, reward, done = env.step(action)
            memory.append((obs, action, reward, nxt))
            obs = nxt
    return memory


def q_net():
    return nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))


def final_distance(env, net, episodes=20):
    out = []
    for _ in range(episodes):
        obs, done = env.reset(), False
        while not done:
            with torch.no_grad():
                action = net(torch.as_tensor(obs, dtype=torch.float32)).argmax().item()
            obs, _, done = env.step(action)
        out.append(np.abs(obs - GOAL).sum())
    return float(np.mean(out))


env = Field()
memory = collect(env, 160)
s, a, r, s2 = zip(*memory)
s, s2 = (torch.tensor(np.array(v), dtype=torch.float32) for v in (s, s2))
a, r = torch.tensor(a), torch.tensor(r)

online, target = q_net(), q_net()
target.load_state_dict(online.state_dict())
opt = torch.optim.Adam(online.parameters(), lr=2e-3)
for step in range(1, 401):
    rows = torch.randint(len(s), (128,))
    with torch.no_grad():
        aim = r[rows] + 0.6 * target(s2[rows]).max(1).values
    q = online(s[rows]).gather(1, a[rows, None]).squeeze(1)
    loss = F.mse_loss(q, aim)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for pt, po in zip(target.parameters(), online.parameters()):
            pt.lerp_(po, 0.05)
    if step % 80 == 0:
        print(f"step {step}  td loss {loss.item():.4f}  final distance {final_distance(env, online):.3f}")
