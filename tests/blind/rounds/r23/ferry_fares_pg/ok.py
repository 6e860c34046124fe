"""Policy gradient for ferry fares: which car fare to offer on each day before departure."""
import numpy as np
import torch
from torch.distributions import Categorical

DAYS = 20
DECK = 26
FARES = np.array([22.0, 40.0, 65.0, 100.0])
GAMMA = 0.99


class FerrySim:
    """A batch of independent sailings, booked over DAYS days."""

    def __init__(self, n_sailings, rng):
        self.n, self.rng = n_sailings, rng

    def reset(self):
        self.day = 0
        self.free = np.full(self.n, DECK)
        self.busy = self.rng.uniform(0.6, 1.6, self.n)
        self.weekend = self.rng.integers(0, 2, self.n)
        return self.observe()

    def observe(self):
        left = np.full(self.n, (DAYS - self.day) / DAYS)
        obs = np.stack([2 * left - 1, (2 * left - 1) ** 2, self.free / DECK, self.busy - 1.1, self.weekend], axis=1)
        return torch.as_tensor(obs, dtype=torch.float32)

    def step(self, choice):
        late = self.day / (DAYS - 1)
        callers = self.rng.poisson((1.4 - 0.4 * late) * self.busy)
        limit = (26 + 95 * late + 8 * self.weekend) * np.exp(0.2 * self.rng.normal(size=(6, self.n)))
        asked = np.arange(6)[:, None] < callers[None, :]
        buyers = (asked & (limit >= FARES[choice])).sum(0)
        sold = np.minimum(buyers, self.free)
        self.free = self.free - sold
        self.day += 1
        return self.observe(), sold * FARES[choice] / 100.0, self.day == DAYS


def build_policy():
    return torch.nn.Sequential(
        torch.nn.Linear(5, 48), torch.nn.Tanh(),
        torch.nn.Linear(48, 48), torch.nn.Tanh(),
        torch.nn.Linear(48, len(FARES)),
    )


def collect(policy, sim):
    log_probs, entropies, rewards = [], [], []
    obs, done = sim.reset(), False
    while not done:
        dist = Categorical(logits=policy(obs))
        action = dist.sample()
        obs, reward, done = sim.step(action.numpy())
        log_probs.append(dist.log_prob(action))
        entropies.append(dist.entropy())
        rewards.append(torch.as_tensor(reward, dtype=torch.float32))
    return torch.stack(log_probs), torch.stack(entropies), rewards


def discounted_returns(rewards):
    running = torch.zeros_like(rewards[0])
    returns = []
    for r in reversed(rewards):
        running = r + GAMMA * running
        returns.insert(0, running)
    return torch.stack(returns)


@torch.no_grad()
def mean_revenue(policy, seed, n_sailings=1500):
    sim = FerrySim(n_sailings, np.random.default_rng(seed))
    obs, done, revenue = sim.reset(), False, np.zeros(n_sailings)
    while not done:
        obs, reward, done = sim.step(policy(obs).argmax(1).numpy())
        revenue += 100.0 * reward
    return revenue.mean()


def run(seed=17, updates=220, batch=64):
    torch.manual_seed(seed)
    sim = FerrySim(batch, np.random.default_rng(seed))
    policy = build_policy()
    optimiser = torch.optim.Adam(policy.parameters(), lr=4e-3)
    for update in range(1, updates + 1):
        log_probs, entropies, rewards = collect(policy, sim)
        returns = discounted_returns(rewards)
        advantage = returns - returns.mean(dim=1, keepdim=True)
        advantage = advantage / (advantage.std() + 1e-6)
        loss = -(log_probs * advantage).mean() - 0.02 * entropies.mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimiser.step()
        if update % 20 == 0:
            earned = 100 * torch.stack(rewards).sum(0).mean().item()
            print(f"update {update:3d}  loss {loss.item():+.4f}  batch revenue {earned:7.1f}"
                  f"  held-out revenue {mean_revenue(policy, 9000):7.1f}")
    print(f"final held-out revenue per sailing: {mean_revenue(policy, 9001):.1f} EUR")


if __name__ == "__main__":
    run()
