import argparse
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical


class VecCartPole:
    """Cart-pole, many copies at once. An environment that fell stays down until reset()."""

    def __init__(self, n, rng, max_steps=200):
        self.n, self.rng, self.max_steps = n, rng, max_steps
        self.g, self.mc, self.mp, self.l, self.f, self.dt = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02

    def reset(self):
        self.s = self.rng.uniform(-0.05, 0.05, (self.n, 4))
        self.alive = np.ones(self.n, dtype=bool)
        self.t = 0
        return self.s.astype(np.float32)

    def step(self, action):
        x, v, th, w = self.s.T
        force = np.where(action == 1, self.f, -self.f)
        total = self.mc + self.mp
        tmp = (force + self.mp * self.l * w ** 2 * np.sin(th)) / total
        acc = (self.g * np.sin(th) - np.cos(th) * tmp) / (
            self.l * (4.0 / 3.0 - self.mp * np.cos(th) ** 2 / total))
        xacc = tmp - self.mp * self.l * acc * np.cos(th) / total
        nxt = np.stack([x + self.dt * v, v + self.dt * xacc, th + self.dt * w, w + self.dt * acc], 1)
        reward = self.alive.astype(np.float32)
        self.s = np.where(self.alive[:, None], nxt, self.s)
        fell = (np.abs(self.s[:, 0]) > 2.4) | (np.abs(self.s[:, 2]) > 12 * math.pi / 180)
        self.alive &= ~fell
        self.t += 1
        done = self.t >= self.max_steps or not self.alive.any()
        return self.s.astype(np.float32), reward, self.alive.copy(), done


class ActorCritic(nn.Module):
    def __init__(self, obs=4, act=2, hidden=64):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh(), nn.Linear(hidden, act))
        self.critic = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, s):
        return self.actor(s), self.critic(s).squeeze(-1)


def rollout(env, net):
    obs = env.reset()
    states, actions, rewards, masks = [], [], [], []
    done, alive = False, np.ones(env.n, dtype=bool)
    while not done:
        with torch.no_grad():
            logits, _ = net(torch.from_numpy(obs))
        a = Categorical(logits=logits).sample()
        states.append(torch.from_numpy(obs))
        actions.append(a)
        masks.append(torch.from_numpy(alive.astype(np.float32)))
        obs, r, alive, done = env.step(a.numpy())
        rewards.append(torch.from_numpy(r))
    return torch.stack(states), torch.stack(actions), rewards, torch.stack(masks)


def discounted(rewards, gamma):
    returns, g = [], torch.zeros_like(rewards[0])
    for r in reversed(rewards):
        g = r + gamma * g
        returns.append(g)
    return torch.stack(returns)


@torch.no_grad()
def evaluate(net, seed, n=64):
    env = VecCartPole(n, np.random.default_rng(seed))
    obs, total, done = env.reset(), np.zeros(n), False
    while not done:
        logits, _ = net(torch.from_numpy(obs))
        obs, r, _, done = env.step(Categorical(logits=logits).sample().numpy())
        total += r
    return total.mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--updates", type=int, default=45)
    ap.add_argument("--envs", type=int, default=16)
    ap.add_argument("--gamma", type=float, default=0.98)
    ap.add_argument("--lr", type=float, default=5e-3)
    ap.add_argument("--entropy", type=float, default=0.01)
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    env = VecCartPole(args.envs, np.random.default_rng(args.seed))
    net = ActorCritic()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    print("untrained policy return %.1f" % evaluate(net, 1000))
    for update in range(1, args.updates + 1):
        states, actions, rewards, mask = rollout(env, net)
        ret = discounted(rewards, args.gamma)
        logits, value = net(states)
        dist = Categorical(logits=logits)
        adv = (ret - value).detach()
        live = mask > 0
        adv = (adv - adv[live].mean()) / (adv[live].std() + 1e-8)
        n = mask.sum()
        policy_loss = -(dist.log_prob(actions) * adv * mask).sum() / n
        value_loss = (F.smooth_l1_loss(value, ret, reduction="none") * mask).sum() / n
        entropy = (dist.entropy() * mask).sum() / n
        loss = policy_loss + 0.5 * value_loss - args.entropy * entropy
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        if update % 10 == 0:
            print("update %3d  mean return %6.1f  value loss %.3f  entropy %.3f"
                  % (update, mask.sum(0).mean(), value_loss.item(), entropy.item()))
    print("final policy return over 64 fresh episodes: %.1f" % evaluate(net, 2000))


if __name__ == "__main__":
    main()
