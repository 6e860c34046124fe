"""Policy gradient for a valve that has to follow a requested tank level which changes now and then."""
import torch
import torch.nn as nn
from torch.distributions import Categorical

HORIZON, ENVS, GAMMA = 14, 128, 0.7


class TankEnv:
    def __init__(self, n):
        self.n = n

    def reset(self):
        self.level = torch.rand(self.n) * 2 - 1
        self.goal = torch.rand(self.n) * 2 - 1
        self.flow = torch.zeros(self.n)
        return self.observe()

    def observe(self):
        return torch.stack([self.level, self.goal, self.flow], dim=1)

    def step(self, action):
        self.flow = 0.3 * self.flow + 0.25 * (action.float() - 1)
        self.level = (self.level + self.flow).clamp(-1.5, 1.5)
        reward = -(self.level - self.goal).abs()
        changed = torch.rand(self.n) < 0.25
        self.goal = torch.where(changed, torch.rand(self.n) * 2 - 1, self.goal)
        return self.observe(), reward


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 3))

    def forward(self, obs):
        return Categorical(logits=self.body(obs))


def discounted(rewards):
    """rewards: list over time of (envs,) tensors -> (time, envs) reward-to-go"""
    out, running = [], torch.zeros_like(rewards[0])
    for r in reversed(rewards):
        running = r + GAMMA * running
        out.insert(0, running)
    return torch.stack(out)


def rollout(env, policy):
    obs, logps, rewards = env.reset(), [], []
    for _ in range(HORIZON):
        dist = policy(obs)
        act = dist.sample()
        logps.append(dist.log_prob(act))
        obs, r = env.step(act)
        rewards.append(r)
    return torch.stack(logps), rewards


@torch.no_grad()
def greedy_error(policy, n=500):
    env = TankEnv(n)
    obs, total = env.reset(), 0.0
    for _ in range(HORIZON):
        obs, r = env.step(policy(obs).logits.argmax(1))
        total -= r.mean().item()
    return total / HORIZON


def main():
    torch.manual_seed(4)
    env, policy = TankEnv(ENVS), Policy()
    opt = torch.optim.Adam(policy.parameters(), lr=2e-2)
    for it in range(1, 81):
        logp, rewards = rollout(env, policy)
        ret = discounted(rewards)
        adv = ret - ret.mean(dim=1, keepdim=True)
        adv = adv / (adv.std() + 1e-6)
        loss = -(logp * adv).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 20 == 0:
            print(f"iter {it} mean reward {torch.stack(rewards).mean():.3f}")
    print(f"mean level error {greedy_error(policy):.3f}")


if __name__ == "__main__":
    main()
