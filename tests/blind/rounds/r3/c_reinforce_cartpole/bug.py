import math
import random

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

SEED, EPISODES, GAMMA, LR, MAX_STEPS = 3, 120, 0.98, 1e-2, 70
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)


class CartPole:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.s = self.rng.uniform(-0.05, 0.05, 4)
        self.t = 0
        return self.s.astype(np.float32)

    def step(self, action):
        x, v, th, om = self.s
        force = 10.0 if action == 1 else -10.0
        tmp = (force + 0.05 * om ** 2 * math.sin(th)) / 1.1
        acc_th = (9.8 * math.sin(th) - math.cos(th) * tmp) / (0.5 * (4 / 3 - 0.1 * math.cos(th) ** 2 / 1.1))
        acc_x = tmp - 0.05 * acc_th * math.cos(th) / 1.1
        self.s = np.array([x + 0.02 * v, v + 0.02 * acc_x, th + 0.02 * om, om + 0.02 * acc_th])
        self.t += 1
        done = abs(self.s[0]) > 2.4 or abs(self.s[2]) > 0.21 or self.t >= MAX_STEPS
        return self.s.astype(np.float32), 1.0, done


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))

    def forward(self, obs):
        return Categorical(logits=self.net(obs))


def reward_to_go(rewards):
    returns, g = [], 0.0
    for r in reversed(rewards):
        g = r + GAMMA * g
        returns.append(g)
    return torch.tensor(returns)


def evaluate(policy, n=4):
    env, total = CartPole(10_000), 0.0
    policy.eval()
    with torch.no_grad():
        for _ in range(n):
            obs, done = env.reset(), False
            while not done:
                obs, r, done = env.step(policy(torch.from_numpy(obs)).probs.argmax().item())
                total += r
    policy.train()
    return total / n


policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=LR)
env = CartPole(SEED)
batch_loss, recent = [], []
for episode in range(1, EPISODES + 1):
    obs, done, log_probs, rewards = env.reset(), False, [], []
    while not done:
        dist = policy(torch.from_numpy(obs))
        action = dist.sample()
        log_probs.append(dist.log_prob(action))
        obs, r, done = env.step(action.item())
        rewards.append(r)
    recent.append(sum(rewards))
    returns = reward_to_go(rewards)
    batch_loss.append((torch.stack(log_probs), returns))
    if episode % 2 == 0:
        all_returns = torch.cat([g for _, g in batch_loss])
        mean, std = all_returns.mean(), all_returns.std() + 1e-6
        loss = torch.stack([-(lp * (g - mean) / std).mean() for lp, g in batch_loss]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        batch_loss = []
    if episode % 24 == 0:
        print(f"episode {episode:4d} train return {np.mean(recent[-24:]):.1f}")
print(f"greedy return over 4 evaluation episodes: {evaluate(policy):.1f}")
