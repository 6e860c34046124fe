"""REINFORCE for a spare-parts warehouse: how many parts to order each day.

Orders are paid at once and arrive two days later; demand is seasonal.
"""
import torch
from torch import nn
from torch.distributions import Categorical


class Warehouse:
    """A batch of independent warehouses stepped together."""

    LEVELS = torch.tensor([0.0, 2.0, 4.0, 6.0, 8.0])

    def __init__(self, n, days=20, generator=None):
        self.n, self.days, self.g = n, days, generator

    def reset(self):
        self.day = 0
        self.stock = torch.full((self.n,), 6.0)
        self.pipeline = torch.zeros(self.n, 2)
        self.phase = torch.rand(self.n, generator=self.g) * 6.283
        return self.observe()

    def rate(self, day):
        return 3.5 + 2.0 * torch.sin(self.phase + 0.45 * day)

    def observe(self):
        season = self.phase + 0.45 * self.day
        return torch.stack([
            (self.stock - 5) / 5, (self.pipeline[:, 0] - 4) / 4, (self.pipeline[:, 1] - 4) / 4,
            torch.sin(season), torch.cos(season),
            torch.full((self.n,), 2 * self.day / self.days - 1),
        ], dim=1)

    def step(self, action):
        order = self.LEVELS[action]
        demand = torch.poisson(self.rate(self.day), generator=self.g)
        sold = torch.minimum(self.stock, demand)
        self.stock = self.stock - sold
        reward = 3.0 * sold - 1.0 * order - 0.15 * self.stock - 0.5 * (demand - sold)
        self.stock = (self.stock + self.pipeline[:, 0]).clamp(max=40)
        self.pipeline = torch.stack([self.pipeline[:, 1], order], dim=1)
        self.day += 1
        return self.observe(), reward, self.day >= self.days


class Policy(nn.Module):
    def __init__(self, obs=6, actions=5, width=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs, width), nn.Tanh(),
                                 nn.Linear(width, width), nn.Tanh(),
                                 nn.Linear(width, actions))

    def forward(self, obs):
        return Categorical(logits=self.net(obs))


def discounted(rewards, gamma):
    """(T, n) rewards -> (T, n) returns."""
    out = torch.zeros_like(rewards)
    running = torch.zeros(rewards.shape[1])
    for t in range(len(rewards)):
        running = rewards[t] + gamma * running
        out[t] = running
    return out


def rollout(env, policy):
    obs, done = env.reset(), False
    log_probs, rewards, entropies = [], [], []
    while not done:
        dist = policy(obs)
        action = dist.sample()
        log_probs.append(dist.log_prob(action))
        entropies.append(dist.entropy())
        obs, reward, done = env.step(action)
        rewards.append(reward)
    return torch.stack(log_probs), torch.stack(rewards), torch.stack(entropies)


def evaluate(policy, seed):
    env = Warehouse(1000, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        _, rewards, _ = rollout(env, policy)
    return rewards.sum(0).mean().item()


def train(updates=100, envs=64, gamma=0.95, lr=6e-3, beta=0.01, seed=4):
    torch.manual_seed(seed)
    env = Warehouse(envs, generator=torch.Generator().manual_seed(seed))
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=lr)
    for update in range(1, updates + 1):
        log_probs, rewards, entropies = rollout(env, policy)
        returns = discounted(rewards, gamma)
        # every day has its own baseline: the mean over the warehouses
        advantage = returns - returns.mean(dim=1, keepdim=True)
        advantage = advantage / (advantage.std() + 1e-6)
        loss = -(log_probs * advantage).mean() - beta * entropies.mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        if update % 20 == 0:
            print(f"update {update:4d}  loss {loss.item():+.4f}  entropy {entropies.mean().item():.3f}  "
                  f"train profit {rewards.sum(0).mean().item():.1f}")
    return policy


if __name__ == "__main__":
    policy = train()
    print(f"average profit over 1000 new warehouses {evaluate(policy, seed=999):.2f}")
