# Double DQN that trims a two-stroke ship engine: keep shaft speed and exhaust temperature on target in rough sea.
import copy
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 5
GAMMA = 0.95
BATCH = 64
EPISODES = 54
EP_LEN = 50
WARMUP = 250
TAU = 0.01
FUEL = (-0.12, -0.03, 0.0, 0.03, 0.12)


class EngineEnv:
    """state: speed error, its rate, exhaust temperature error, fuel rack position, wave load"""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.state = np.zeros(5, dtype=np.float32)

    def reset(self):
        self.state = np.zeros(5, dtype=np.float32)
        self.state[0] = self.rng.uniform(-1.0, 1.0)
        self.state[2] = self.rng.uniform(-0.5, 0.5)
        self.state[3] = self.rng.uniform(-0.4, 0.4)
        self.state[4] = self.rng.normal(0.0, 0.3)
        self.t = 0
        return self.state

    def step(self, action):
        s = self.state
        old = s[0]
        s[3] = np.clip(s[3] + FUEL[action], -1.0, 1.0)
        s[4] = 0.9 * s[4] + 0.1 * self.rng.normal()
        s[0] = np.clip(0.92 * s[0] + 0.45 * s[3] - 0.35 * s[4] + 0.02 * self.rng.normal(), -2.5, 2.5)
        s[1] = s[0] - old
        s[2] = 0.85 * s[2] + 0.2 * s[3] + 0.02 * self.rng.normal()
        cost = abs(s[0]) + 0.4 * max(s[2], 0.0) + 2.0 * abs(FUEL[action])
        self.t += 1
        tripped = abs(s[0]) >= 2.4
        reward = -cost - (10.0 if tripped else 0.0)
        return self.state, float(reward), bool(tripped), self.t >= EP_LEN


class QNet(nn.Module):
    def __init__(self, n_obs=5, n_act=len(FUEL), width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_obs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.value = nn.Linear(width, 1)
        self.adv = nn.Linear(width, n_act)

    def forward(self, x):
        h = self.body(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(dim=1, keepdim=True)


def act(net, obs, eps=0.0):
    if random.random() < eps:
        return random.randrange(len(FUEL))
    with torch.no_grad():
        return int(net(torch.from_numpy(obs)[None]).argmax(1))


def learn(net, target, opt, memory):
    obs, action, reward, nxt, ended = zip(*random.sample(memory, BATCH))
    obs, nxt = torch.from_numpy(np.stack(obs)), torch.from_numpy(np.stack(nxt))
    action = torch.tensor(action)[:, None]
    reward, ended = torch.tensor(reward), torch.tensor(ended, dtype=torch.float32)
    q = net(obs).gather(1, action).squeeze(1)
    with torch.no_grad():
        best = net(nxt).argmax(1, keepdim=True)
        y = reward + GAMMA * (1.0 - ended) * target(nxt).gather(1, best).squeeze(1)
    loss = F.smooth_l1_loss(q, y)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 10.0)
    opt.step()
    with torch.no_grad():
        for pt, p in zip(target.parameters(), net.parameters()):
            pt.lerp_(p, TAU)
    return loss.item()


def evaluate(net, episodes=30, seed=900):
    env, total = EngineEnv(seed), 0.0
    for _ in range(episodes):
        obs, over = env.reset(), False
        while not over:
            obs, reward, tripped, timeout = env.step(act(net, obs))
            total += reward
            over = tripped or timeout
    return total / episodes


random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)
env, net = EngineEnv(SEED), QNet()
target = copy.deepcopy(net)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
memory = deque(maxlen=20000)
losses = deque(maxlen=500)
for episode in range(EPISODES):
    obs, over = env.reset(), False
    eps = max(0.05, 1.0 - episode / 30)
    while not over:
        action = act(net, obs, eps)
        nxt, reward, tripped, timeout = env.step(action)
        memory.append((obs, action, reward, nxt, tripped))
        obs, over = nxt, tripped or timeout
        if len(memory) >= WARMUP:
            losses.append(learn(net, target, opt, memory))
    if (episode + 1) % 9 == 0:
        print(f"episode {episode + 1:3d}  eps {eps:.2f}  td loss {np.mean(losses):.4f}")
print(f"mean return of the greedy policy over 30 new episodes: {evaluate(net):.2f}")
