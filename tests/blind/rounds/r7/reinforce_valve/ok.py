"""REINFORCE with a moving baseline: keep a tank level near a set point with a three-way valve."""
import torch
import torch.nn as nn
from torch.distributions import Categorical

torch.manual_seed(8)
N_ENVS, HORIZON, GAMMA = 32, 20, 0.9
ITERATIONS, LR, ENTROPY = 120, 5e-3, 0.01
FLOW = torch.tensor([-0.15, 0.0, 0.15])


class TankEnv:
    """Batch of tanks; state is (level - set point, inflow)."""

    def __init__(self, n, seed):
        self.n, self.gen = n, torch.Generator().manual_seed(seed)

    def reset(self):
        self.err = torch.rand(self.n, generator=self.gen) * 2 - 1
        self.inflow = 0.05 * torch.randn(self.n, generator=self.gen)
        return self.obs()

    def obs(self):
        return torch.stack([self.err, 10 * self.inflow], dim=1)

    def step(self, action):
        self.err = (self.err + FLOW[action] + self.inflow).clamp(-1.5, 1.5)
        self.inflow = 0.8 * self.inflow + 0.03 * torch.randn(self.n, generator=self.gen)
        return self.obs(), -self.err.abs()


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 3))

    def forward(self, obs):
        return Categorical(logits=self.net(obs))


def rollout(env, policy):
    obs = env.reset()
    observations, actions, rewards = [], [], []
    with torch.no_grad():
        for _ in range(HORIZON):
            action = policy(obs).sample()
            observations.append(obs)
            actions.append(action)
            obs, reward = env.step(action)
            rewards.append(reward)
    return torch.stack(observations), torch.stack(actions), torch.stack(rewards)


def returns_to_go(rewards):
    out, running = torch.zeros_like(rewards), torch.zeros(rewards.shape[1])
    for t in reversed(range(len(rewards))):
        running = rewards[t] + GAMMA * running
        out[t] = running
    return out


@torch.no_grad()
def evaluate(policy, seed):
    env = TankEnv(256, seed)
    obs, total = env.reset(), 0.0
    for _ in range(HORIZON):
        obs, reward = env.step(policy(obs).probs.argmax(1))
        total += reward.mean().item()
    return total / HORIZON


policy = Policy()
env = TankEnv(N_ENVS, seed=1)
opt = torch.optim.Adam(policy.parameters(), lr=LR)
for it in range(1, ITERATIONS + 1):
    obs, act, rew = rollout(env, policy)
    ret = returns_to_go(rew)
    adv = ret - ret.mean(dim=1, keepdim=True)
    adv = adv / (adv.std() + 1e-6)
    dist = policy(obs)
    loss = -(dist.log_prob(act) * adv).mean() - ENTROPY * dist.entropy().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 15 == 0:
        print(f"iter {it:3d} loss {loss.item():+.4f} rollout reward {rew.mean().item():.3f} "
              f"greedy reward {evaluate(policy, seed=77):.3f}")
