"""REINFORCE with a learned baseline on a contextual bandit: which of 8 banners to show to a visitor."""
import torch
import torch.nn as nn
from torch.distributions import Categorical

torch.manual_seed(21)
N_ARMS, N_CTX = 8, 12
ENTROPY_WEIGHT, STEPS, BATCH = 0.05, 1400, 64


class Visitors:
    """context: device one-hot (3), hour as sin/cos, six interests, age; click chance depends on context and banner"""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.taste = torch.randn(N_CTX, N_ARMS, generator=self.g) * 1.1
        self.cross = torch.randn(N_CTX, N_ARMS, generator=self.g) * 0.9
        self.bias = torch.linspace(-0.4, 0.4, N_ARMS)

    def sample(self, n):
        device = nn.functional.one_hot(torch.randint(0, 3, (n,), generator=self.g), 3).float()
        hour = torch.rand(n, 1, generator=self.g) * 6.2832
        interests = (torch.rand(n, 6, generator=self.g) < 0.35).float()
        age = torch.randn(n, 1, generator=self.g)
        return torch.cat([device, hour.sin(), hour.cos(), interests, age], 1)

    def chance(self, x):
        return torch.sigmoid(x @ self.taste + (x * x.roll(1, 1)) @ self.cross + self.bias - 2.2)

    def click(self, x, arm):
        p = self.chance(x).gather(1, arm[:, None]).squeeze(1)
        return (torch.rand(len(p), generator=self.g) < p).float()


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(N_CTX, 64), nn.ReLU(), nn.Linear(64, N_ARMS))
        self.value = nn.Sequential(nn.Linear(N_CTX, 32), nn.ReLU(), nn.Linear(32, 1))


env, agent = Visitors(4), Agent()
opt = torch.optim.Adam(agent.parameters(), lr=3e-3)
running = 0.0
for step in range(STEPS):
    x = env.sample(BATCH)
    dist = Categorical(logits=agent.policy(x))
    arm = dist.sample()
    reward = env.click(x, arm)
    value = agent.value(x).squeeze(1)
    advantage = (reward - value).detach()
    policy_loss = -(dist.log_prob(arm) * advantage).mean()
    value_loss = (value - reward).pow(2).mean()
    loss = policy_loss + 0.5 * value_loss - ENTROPY_WEIGHT * dist.entropy().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    running = 0.98 * running + 0.02 * reward.mean().item()
    if step % 200 == 199:
        print(f"step {step + 1} click rate {running:.3f} value loss {value_loss.item():.4f}")

x = env.sample(20000)
with torch.no_grad():
    p = env.chance(x)
    chosen = p.gather(1, agent.policy(x).argmax(1, keepdim=True)).mean().item()
print(f"greedy click rate {chosen:.4f}  best possible {p.max(1).values.mean().item():.4f}  random {p.mean().item():.4f}")
