"""REINFORCE on a corridor: episodes of different length, log-probabilities kept on the policy until the episode
ends."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical

torch.manual_seed(543)
random.seed(543)


class Corridor:
    """Walk right to the goal; every step costs a little."""

    def __init__(self, length=6, limit=30):
        self.length, self.limit = length, limit

    def reset(self):
        self.place, self.clock = random.randint(0, 2), 0
        return self.look()

    def look(self):
        return [self.place / self.length, 1.0 - self.place / self.length, random.gauss(0, 0.05), 1.0]

    def step(self, action):
        self.clock += 1
        self.place = max(0, self.place + (1 if action == 1 else -1))
        done = self.place >= self.length
        return self.look(), (1.0 if done else -0.1), done or self.clock >= self.limit


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 32)
        self.dropout = nn.Dropout(p=0.3)
        self.affine2 = nn.Linear(32, 2)
        self.saved_log_probs = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.dropout(self.affine1(x)))
        return F.softmax(self.affine2(x), dim=1)


policy = Policy()
optimizer = optim.Adam(policy.parameters(), lr=1e-2)
eps = torch.finfo(torch.float32).eps


def select_action(state):
    state = torch.tensor(state, dtype=torch.float32).unsqueeze(0)
    m = Categorical(policy(state))
    action = m.sample()
    policy.saved_log_probs.append(m.log_prob(action))
    return action.item()


def finish_episode():
    R = 0
    policy_loss = []
    returns = []
    for r in policy.rewards[::-1]:
        R = r + 0.99 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std(unbiased=False) + eps)
    for log_prob, R in zip(policy.saved_log_probs, returns, strict=True):
        policy_loss.append(-log_prob * R)
    optimizer.zero_grad()
    policy_loss = torch.cat(policy_loss).sum()
    policy_loss.backward()
    optimizer.step()
    del policy.rewards[:]
    del policy.saved_log_probs[:]


env = Corridor()
running_reward = 0.0
for i_episode in range(60):
    state, done = env.reset(), False
    while not done:
        state, reward, done = env.step(select_action(state))
        policy.rewards.append(reward)
    running_reward = 0.05 * sum(policy.rewards) + 0.95 * running_reward
    finish_episode()
    if i_episode % 10 == 0:
        print(f"Episode {i_episode}\tAverage reward: {running_reward:.2f}")
