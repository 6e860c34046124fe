"""Snow guns of a small ski resort: policy gradient on a weather simulator.

Each evening one decides: guns off, half or full. Making snow costs water and power,
guests pay for open slopes during the holidays.
"""
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

NIGHTS = 24
HOLIDAYS = range(9, 15)
ACTIONS = np.array([0.0, 0.5, 1.0])


class Resort:
    """A batch of independent seasons."""

    def __init__(self, n, seed):
        self.n = n
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.night = 0
        self.base = np.zeros(self.n)
        self.warmth = self.rng.normal(0, 2, self.n)
        self._weather()
        return self.obs()

    def _weather(self):
        self.warmth = 0.7 * self.warmth + self.rng.normal(0, 1.5, self.n)
        self.temp = -3.5 + self.warmth
        self.humid = self.rng.uniform(0.4, 1.0, self.n)
        self.price = self.rng.uniform(0.6, 1.6, self.n)
        self.natural = np.clip(self.rng.normal(-3, 3, self.n), 0, None)

    def obs(self):
        o = np.stack([self.temp / 4, (self.humid - 0.7) * 5, (self.price - 1.1) * 3,
                      self.base / 30, np.full(self.n, self.night / NIGHTS - 0.5)], 1)
        return torch.tensor(o, dtype=torch.float32)

    def step(self, action):
        power = ACTIONS[action]
        wet_bulb = self.temp - 4 * (1 - self.humid)
        output = np.clip(-wet_bulb - 1.5, 0, 6) * power
        melt = np.clip(self.temp + 1, 0, None) * 0.8 + 0.4
        self.base = np.clip(self.base + output + self.natural * 0.5 - melt, 0, 60)
        reward = -1.5 * power * self.price
        if self.night in HOLIDAYS:
            reward = reward + 6.0 / (1 + np.exp(-(self.base - 18) / 4))
        self.night += 1
        self._weather()
        return self.obs(), reward, self.night == NIGHTS


class Policy(nn.Module):
    def __init__(self, n_obs=5, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_obs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.logits = nn.Linear(width, len(ACTIONS))

    def forward(self, obs):
        return self.logits(self.body(obs))


def discounted(rewards, gamma):
    running = torch.zeros_like(rewards[0])
    out = []
    for r in reversed(rewards):
        running = r + gamma * running
        out.append(running)
    return torch.stack(out[::-1])


def rollout(policy, env):
    obs, done = env.reset(), False
    logps, rewards, entropy = [], [], []
    while not done:
        dist = Categorical(logits=policy(obs))
        action = dist.sample()
        obs, reward, done = env.step(action.numpy())
        logps.append(dist.log_prob(action))
        entropy.append(dist.entropy())
        rewards.append(torch.tensor(reward, dtype=torch.float32))
    return torch.stack(logps), rewards, torch.stack(entropy)


@torch.no_grad()
def season_profit(policy, seed=999, n=600):
    env = Resort(n, seed)
    obs, done, total = env.reset(), False, np.zeros(n)
    while not done:
        obs, reward, done = env.step(policy(obs).argmax(1).numpy())
        total += reward
    return total.mean()


def main():
    torch.manual_seed(1)
    env, policy = Resort(128, seed=1), Policy()
    opt = torch.optim.Adam(policy.parameters(), lr=4e-3)
    for it in range(1, 161):
        logps, rewards, entropy = rollout(policy, env)
        returns = discounted(rewards, gamma=0.99)
        advantage = returns - returns.mean(1, keepdim=True)
        advantage = advantage / (advantage.std() + 1e-8)
        loss = -(logps * advantage).mean() - 0.01 * entropy.mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        opt.step()
        if it % 20 == 0:
            print(f"iter {it:3d} loss {loss.item():+.4f} return {sum(rewards).mean():7.3f} "
                  f"entropy {entropy.mean():.3f}")
    print(f"held-out seasons, greedy policy: mean profit {season_profit(policy):.3f}")


if __name__ == "__main__":
    main()
