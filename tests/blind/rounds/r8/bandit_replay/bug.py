"""Epsilon-greedy neural bandit for article recommendation with a replay buffer."""
import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N_ARMS, N_CONTEXT, ROUNDS = 6, 10, 2500


class NewsSite:
    """Visitors arrive one by one; a click depends on visitor and article."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.taste = torch.tensor(self.rng.normal(size=(N_ARMS, N_CONTEXT)), dtype=torch.float32)
        self.visitor = torch.zeros(N_CONTEXT)

    def next_visitor(self):
        self.visitor.copy_(torch.from_numpy(self.rng.normal(size=N_CONTEXT)))
        return self.visitor

    def click_rates(self, visitor):
        return torch.sigmoid(self.taste @ visitor - 1.0)

    def click(self, visitor, arm):
        return float(self.rng.random() < self.click_rates(visitor)[arm].item())


class ReplayBuffer:
    def __init__(self, capacity):
        self.capacity = capacity
        self.rows = []

    def add(self, context, arm, reward):
        self.rows.append((context, arm, reward))
        if len(self.rows) > self.capacity:
            self.rows.pop(0)

    def sample(self, n, rng):
        picks = rng.sample(self.rows, n)
        contexts = torch.stack([p[0] for p in picks])
        return contexts, torch.tensor([p[1] for p in picks]), torch.tensor([p[2] for p in picks])


class RewardNet(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(N_CONTEXT, hidden), nn.ReLU(), nn.Linear(hidden, N_ARMS))

    def forward(self, context):
        return self.net(context)


@torch.no_grad()
def greedy_value(model, seed, site, n=1000):
    """Expected click rate of the greedy policy on fresh visitors, with random and best for scale."""
    model.eval()
    gen = torch.Generator().manual_seed(seed)
    visitors = torch.randn(n, N_CONTEXT, generator=gen)
    rates = torch.sigmoid(visitors @ site.taste.t() - 1.0)
    chosen = rates.gather(1, model(visitors).argmax(1, keepdim=True)).mean().item()
    return chosen, rates.mean().item(), rates.max(1).values.mean().item()


def main():
    torch.manual_seed(1)
    rng = random.Random(1)
    site = NewsSite(seed=1)
    model = RewardNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    buffer = ReplayBuffer(capacity=5000)
    clicks, losses = [], []
    for t in range(1, ROUNDS + 1):
        visitor = site.next_visitor()
        epsilon = max(0.1, 1.0 - t / 1000)
        if rng.random() < epsilon:
            arm = rng.randrange(N_ARMS)
        else:
            model.eval()
            with torch.no_grad():
                arm = model(visitor).argmax().item()
        reward = site.click(visitor, arm)
        buffer.add(visitor, arm, reward)
        clicks.append(reward)

        if t >= 200 and t % 2 == 0:
            model.train()
            contexts, arms, rewards = buffer.sample(64, rng)
            predicted = model(contexts).gather(1, arms[:, None]).squeeze(1)
            loss = F.binary_cross_entropy_with_logits(predicted, rewards)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if t % 500 == 0:
            value, _, _ = greedy_value(model, 900, site)
            print(f"round {t}  loss {np.mean(losses[-200:]):.4f}  clicks {np.mean(clicks[-500:]):.3f}  greedy value {value:.3f}")

    value, rnd, best = greedy_value(model, 901, site)
    print(f"greedy value {value:.3f}  (random {rnd:.3f}, best possible {best:.3f})")


if __name__ == "__main__":
    main()
