import numpy as np
import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(1)
N_ENVS, HORIZON, ITERS, EPOCHS, MINIBATCH = 32, 40, 30, 4, 256
GAMMA, LAM, CLIP, ENT, LR = 0.95, 0.95, 0.2, 0.001, 1e-3


class Reacher:
    """accelerate a unit mass to a goal; an episode is HORIZON steps"""

    def __init__(self, n, seed):
        self.n, self.g = n, torch.Generator().manual_seed(seed)

    def reset(self):
        self.pos = torch.rand(self.n, 2, generator=self.g) * 2 - 1
        self.goal = torch.rand(self.n, 2, generator=self.g) * 2 - 1
        self.vel = torch.zeros(self.n, 2)
        return self.obs()

    def obs(self):
        return torch.cat([self.goal - self.pos, self.vel], 1)

    def step(self, action):
        self.vel = 0.9 * self.vel + 0.1 * action.clamp(-1, 1)
        self.pos = self.pos + 0.3 * self.vel
        reward = -(self.goal - self.pos).norm(dim=1) - 0.02 * action.pow(2).sum(1)
        return self.obs(), reward


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
        self.log_std = nn.Parameter(torch.full((2,), -0.5))
        self.v = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))

    def dist(self, obs):
        return Normal(self.mu(obs), self.log_std.exp())

    def log_prob(self, obs, act):
        d = self.dist(obs)
        logp = d.log_prob(act).sum(-1, keepdim=True)
        return logp, d.entropy().sum(-1)

    def value(self, obs):
        return self.v(obs).squeeze(-1)


@torch.no_grad()
def rollout(agent, env):
    obs, O, A, R, V = env.reset(), [], [], [], []
    for _ in range(HORIZON):
        a = agent.dist(obs).sample()
        nxt, r = env.step(a)
        O.append(obs), A.append(a), R.append(r), V.append(agent.value(obs))
        obs = nxt
    V.append(agent.value(obs))  # time limit, not a terminal state
    adv, gae = [None] * HORIZON, torch.zeros(env.n)
    for t in reversed(range(HORIZON)):
        delta = R[t] + GAMMA * V[t + 1] - V[t]
        gae = delta + GAMMA * LAM * gae
        adv[t] = gae
    adv, val = torch.stack(adv), torch.stack(V[:-1])
    O, A = torch.cat(O), torch.cat(A)
    old_logp, _ = agent.log_prob(O, A)
    return O, A, old_logp, adv.flatten(), (adv + val).flatten(), torch.stack(R).sum(0).mean()


@torch.no_grad()
def evaluate(agent):
    env = Reacher(200, seed=999)
    obs, total = env.reset(), 0.0
    for _ in range(HORIZON):
        obs, r = env.step(agent.mu(obs))
        total += r.mean().item()
    return total


agent, env = Agent(), Reacher(N_ENVS, seed=1)
optimizer = torch.optim.Adam(agent.parameters(), lr=LR)
print(f"before training: return {evaluate(agent):.2f}")
for it in range(ITERS):
    obs, act, old_logp, adv, ret, score = rollout(agent, env)
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for _ in range(EPOCHS):
        for idx in torch.randperm(len(obs)).split(MINIBATCH):
            logp, entropy = agent.log_prob(obs[idx], act[idx])
            ratio = (logp - old_logp[idx]).exp()
            a = adv[idx]
            surrogate = torch.min(ratio * a, ratio.clamp(1 - CLIP, 1 + CLIP) * a).mean()
            value_loss = (agent.value(obs[idx]) - ret[idx]).pow(2).mean()
            loss = -surrogate + 0.5 * value_loss - ENT * entropy.mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    if it % 5 == 4:
        print(f"iter {it + 1:3d} rollout return {score:.2f} value loss {value_loss.item():.3f}")
print(f"evaluation return {evaluate(agent):.2f}")
