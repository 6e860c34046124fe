import copy

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

CFG = dict(seed=2, envs=16, steps=700, warmup=40, batch=128, gamma=0.9, tau=0.02, lr_actor=1e-3, lr_critic=2e-3, noise=0.3)
torch.manual_seed(CFG["seed"])
rng = np.random.default_rng(CFG["seed"])
EPISODE = 25


class Slider:
    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.reset()

    def reset(self):
        self.x = self.rng.uniform(-1, 1, self.n)
        self.goal = self.rng.uniform(-1, 1, self.n)
        self.v = np.zeros(self.n)
        self.t = 0

    def obs(self):
        return np.stack([self.goal - self.x, self.v], 1).astype(np.float32)

    def step(self, a):
        self.v = 0.8 * self.v + 0.2 * np.clip(a[:, 0], -1, 1)
        self.x = self.x + 0.4 * self.v
        self.t += 1
        reward = (-np.abs(self.goal - self.x) - 0.02 * a[:, 0] ** 2).astype(np.float32)
        return self.obs(), reward


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 1), nn.Tanh())

    def forward(self, s):
        return self.net(s)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, s, a):
        return self.net(torch.cat([s, a], 1))


@torch.no_grad()
def polyak(target, source, tau):
    for pt, ps in zip(target.parameters(), source.parameters()):
        pt.lerp_(ps, tau)


@torch.no_grad()
def evaluate(actor):
    env, total = Slider(200, np.random.default_rng(99)), 0.0
    for _ in range(EPISODE):
        _, r = env.step(actor(torch.from_numpy(env.obs())).numpy())
        total += r.mean()
    return total


actor, critic = Actor(), Critic()
actor_t, critic_t = copy.deepcopy(actor), copy.deepcopy(critic)
actor_opt = torch.optim.Adam(actor.parameters(), lr=CFG["lr_actor"])
critic_opt = torch.optim.Adam(critic.parameters(), lr=CFG["lr_critic"])
env, memory = Slider(CFG["envs"], rng), []
print(f"untrained return {evaluate(actor):.2f}")
for step in range(1, CFG["steps"] + 1):
    obs = env.obs()
    with torch.no_grad():
        act = actor(torch.from_numpy(obs)).numpy()
    act = np.clip(act + CFG["noise"] * rng.standard_normal(act.shape), -1, 1).astype(np.float32)
    if step <= CFG["warmup"]:
        act = rng.uniform(-1, 1, act.shape).astype(np.float32)
    nxt, rew = env.step(act)
    memory += list(zip(obs, act, rew, nxt))
    if env.t >= EPISODE:  # time limit only: no terminal states
        env.reset()
    if step <= CFG["warmup"]:
        continue
    picks = [memory[i] for i in rng.integers(0, len(memory), CFG["batch"])]
    s, a, r, s2 = (torch.from_numpy(np.stack(c)) for c in zip(*picks))
    with torch.no_grad():
        y = r[:, None] + CFG["gamma"] * critic_t(s2, actor_t(s2))
    critic_loss = F.mse_loss(critic(s, a), y)
    actor_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()

    actor_loss = -critic(s, actor(s)).mean()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
    polyak(critic_t, critic, CFG["tau"])
    polyak(actor_t, actor, CFG["tau"])
    if step % 100 == 0:
        print(f"step {step} critic {critic_loss.item():.4f} actor {actor_loss.item():.3f} return {evaluate(actor):.2f}")
print(f"final evaluation return {evaluate(actor):.2f}")
