"""Vectorised reaching of a thrust-controlled puck with a Gaussian policy."""
import torch
import torch.nn as nn
from torch.distributions import Normal

torch.manual_seed(0)
ENVS, HORIZON, GAMMA, ITERS = 128, 10, 0.9, 120


class Reach:
    """State: offset to the goal and velocity in the plane; action: thrust."""

    def __init__(self, n):
        self.n = n

    def reset(self):
        self.pos = torch.rand(self.n, 2) * 2 - 1
        self.vel = torch.zeros(self.n, 2)
        return self.observe()

    def observe(self):
        return torch.cat([self.pos, self.vel], 1)

    def step(self, action):
        self.pos = (self.pos + 0.3 * self.vel).clamp(-3, 3)
        self.vel = 0.7 * self.vel + action.clamp(-1, 1)
        return self.observe(), -self.pos.norm(dim=1)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 2))
        self.log_std = nn.Parameter(torch.full((2,), -0.5))

    def forward(self, obs):
        return Normal(self.body(obs), self.log_std.exp())


def discounted(rewards):
    """rewards: list of (ENVS,) tensors, returns (HORIZON, ENVS)."""
    running = torch.zeros_like(rewards[0])
    out = []
    for r in rewards:
        running = r + GAMMA * running
        out.append(running)
    return torch.stack(out)


def collect(env, policy):
    obs = env.reset()
    log_probs, rewards = [], []
    for _ in range(HORIZON):
        dist = policy(obs)
        action = dist.sample()
        log_probs.append(dist.log_prob(action).sum(1))
        obs, r = env.step(action)
        rewards.append(r)
    return torch.stack(log_probs), rewards


@torch.no_grad()
def evaluate(policy, n=256):
    policy.eval()
    env = Reach(n)
    obs = env.reset()
    for _ in range(HORIZON):
        obs, r = env.step(policy(obs).mean)
    policy.train()
    return -r.mean().item()


env, policy = Reach(ENVS), Policy()
opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
print(f"start: final distance {evaluate(policy):.3f}")
for it in range(ITERS):
    log_probs, rewards = collect(env, policy)
    returns = discounted(rewards)
    adv = returns - returns.mean(1, keepdim=True)
    adv = adv / (adv.std() + 1e-6)
    loss = -(log_probs * adv).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    opt.step()
    if it % 15 == 0:
        print(f"iter {it:3d} mean reward {torch.stack(rewards).mean():.3f} eval distance {evaluate(policy):.3f}")
print(f"final distance to goal {evaluate(policy):.3f}")
