"""PPO on a vectorised cart-pole, hyperparameters from config.toml."""
import math
import os
import sys
import tomllib

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical


class VecCartPole:
    def __init__(self, n, max_steps, seed):
        self.n, self.max_steps = n, max_steps
        self.rng = np.random.default_rng(seed)
        self.s = self.rng.uniform(-0.05, 0.05, (n, 4))
        self.t = np.zeros(n, dtype=int)

    def obs(self):
        return torch.from_numpy(self.s.astype(np.float32))

    def step(self, action):
        x, xd, th, thd = self.s.T
        force = np.where(action == 1, 10.0, -10.0)
        c, s = np.cos(th), np.sin(th)
        tmp = (force + 0.05 * thd ** 2 * s) / 1.1
        thacc = (9.8 * s - c * tmp) / (0.5 * (4 / 3 - 0.1 * c ** 2 / 1.1))
        xacc = tmp - 0.05 * thacc * c / 1.1
        self.s = np.stack([x + 0.02 * xd, xd + 0.02 * xacc, th + 0.02 * thd, thd + 0.02 * thacc], 1)
        self.t += 1
        fell = (np.abs(self.s[:, 0]) > 2.4) | (np.abs(self.s[:, 2]) > 12 * math.pi / 180)
        timeout = (self.t >= self.max_steps) & ~fell
        final = self.obs()
        done = fell | timeout
        lengths = self.t[done].copy()
        self.s[done] = self.rng.uniform(-0.05, 0.05, (done.sum(), 4))
        self.t[done] = 0
        return final, fell, timeout, lengths


class ActorCritic(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 2))
        self.v = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        nn.init.normal_(self.pi[-1].weight, std=0.01)

    def forward(self, o):
        return Categorical(logits=self.pi(o)), self.v(o).squeeze(-1)


def collect(env, net, cfg):
    buf = {k: [] for k in ("o", "a", "lp", "v", "r", "d")}
    lengths = []
    for _ in range(cfg["rollout"]):
        o = env.obs()
        with torch.no_grad():
            dist, v = net(o)
            a = dist.sample()
            final, fell, timeout, ended = env.step(a.numpy())
            r = torch.ones(env.n) + cfg["gamma"] * net(final)[1] * torch.from_numpy(timeout)
        for k, val in zip(buf, (o, a, dist.log_prob(a), v, r, torch.from_numpy(fell | timeout).float())):
            buf[k].append(val)
        lengths.extend(ended.tolist())
    with torch.no_grad():
        last = net(env.obs())[1]
    buf = {k: torch.stack(v) for k, v in buf.items()}
    adv, g = torch.zeros_like(buf["r"]), torch.zeros(env.n)
    for t in reversed(range(cfg["rollout"])):
        alive = 1 - buf["d"][t]
        nxt = buf["v"][t + 1] if t + 1 < cfg["rollout"] else last
        delta = buf["r"][t] + cfg["gamma"] * nxt * alive - buf["v"][t]
        g = delta + cfg["gamma"] * cfg["gae_lambda"] * alive * g
        adv[t] = g
    buf["adv"], buf["ret"] = adv, adv + buf["v"]
    return {k: v.flatten(0, 1) for k, v in buf.items()}, lengths


def update(net, opt, buf, cfg, max_norm):
    n = len(buf["a"])
    for _ in range(cfg["epochs"]):
        for b in torch.randperm(n).split(n // cfg["minibatches"]):
            dist, v = net(buf["o"][b])
            ratio = (dist.log_prob(buf["a"][b]) - buf["lp"][b]).exp()
            adv = buf["adv"][b]
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            policy = -torch.min(ratio * adv, ratio.clamp(1 - cfg["clip"], 1 + cfg["clip"]) * adv).mean()
            value = ((v - buf["ret"][b]) ** 2).mean()
            loss = policy + cfg["value"] * value - cfg["entropy"] * dist.entropy().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), max_norm)
            opt.step()
    return policy.item(), value.item()


def evaluate(net, max_steps, episodes=50):
    env = VecCartPole(episodes, max_steps, seed=12345)
    alive, length = np.ones(episodes, bool), np.zeros(episodes)
    for _ in range(max_steps):
        with torch.no_grad():
            a = net(env.obs())[0].logits.argmax(-1).numpy()
        length += alive
        alive &= ~env.step(a)[1]
    return length.mean()


def main(folder):
    with open(os.path.join(folder, "config.toml"), "rb") as f:
        cfg = tomllib.load(f)
    torch.manual_seed(1)
    env = VecCartPole(cfg["env"]["num_envs"], cfg["env"]["max_steps"], seed=1)
    net = ActorCritic()
    opt = torch.optim.Adam(net.parameters(), lr=cfg["optim"]["lr"], eps=cfg["optim"]["adam_eps"])
    for u in range(cfg["ppo"]["updates"]):
        buf, lengths = collect(env, net, cfg["ppo"])
        pl, vl = update(net, opt, buf, cfg["ppo"], cfg["optim"]["max_grad_norm"])
        if u % 5 == 4:
            mean = np.mean(lengths) if lengths else float("nan")
            print(f"update {u + 1:3d} episode length {mean:.1f} policy {pl:.4f} value {vl:.2f}")
    print(f"greedy return over 50 episodes: {evaluate(net, cfg['env']['max_steps']):.1f}")


if __name__ == "__main__":
    main(sys.argv[1])
