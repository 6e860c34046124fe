from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.distributions import Categorical


@dataclass
class Config:
    envs: int = 16
    horizon: int = 64
    iters: int = 30
    epochs: int = 4
    minibatch: int = 256
    gamma: float = 0.98
    lam: float = 0.95
    clip: float = 0.2
    lr: float = 3e-3
    ent: float = 0.005
    seed: int = 5


class PoleBatch:
    """Batch of cart-poles, advanced together; finished ones restart by themselves."""

    def __init__(self, n, gen, limit=200):
        self.n, self.gen, self.limit = n, gen, limit
        self.s = self._fresh(n)
        self.age = torch.zeros(n)

    def _fresh(self, n):
        return (torch.rand(n, 4, generator=self.gen) - 0.5) * 0.1

    def step(self, action):
        x, xd, th, thd = self.s.unbind(1)
        force = torch.where(action == 1, 10.0, -10.0)
        sin, cos = th.sin(), th.cos()
        tmp = (force + 0.05 * thd ** 2 * sin) / 1.1
        thacc = (9.8 * sin - cos * tmp) / (0.5 * (4 / 3 - 0.1 * cos ** 2 / 1.1))
        xacc = tmp - 0.05 * thacc * cos / 1.1
        self.s = torch.stack([x + 0.02 * xd, xd + 0.02 * xacc, th + 0.02 * thd, thd + 0.02 * thacc], 1)
        self.age += 1
        fell = (self.s[:, 0].abs() > 2.4) | (self.s[:, 2].abs() > 0.21)
        done = fell | (self.age >= self.limit)
        length = self.age.clone()
        self.s = torch.where(done[:, None], self._fresh(self.n), self.s)
        self.age[done] = 0
        return self.s, torch.ones(self.n), done.float(), length


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 2))
        self.v = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 1))

    def forward(self, s):
        return Categorical(logits=self.pi(s)), self.v(s).squeeze(-1)


def gae(rew, val, done, last, cfg):
    adv, run = torch.zeros_like(rew), torch.zeros(rew.shape[1])
    nxt = last
    for t in reversed(range(len(rew))):
        delta = rew[t] + cfg.gamma * nxt * (1 - done[t]) - val[t]
        run = delta + cfg.gamma * cfg.lam * (1 - done[t]) * run
        adv[t], nxt = run, val[t]
    return adv


@torch.no_grad()
def rollout(env, net, cfg):
    keys = ("s", "a", "lp", "r", "d", "v")
    tape = {k: [] for k in keys}
    lengths = []
    for _ in range(cfg.horizon):
        s = env.s
        dist, v = net(s)
        a = dist.sample()
        _, r, d, age = env.step(a)
        for k, z in zip(keys, (s, a, dist.log_prob(a), r, d, v)):
            tape[k].append(z)
        lengths += age[d > 0].tolist()
    tape = {k: torch.stack(z) for k, z in tape.items()}
    adv = gae(tape["r"], tape["v"], tape["d"], net(env.s)[1], cfg)
    ret = adv + tape["v"]
    flat = {k: tape[k].flatten(0, 1) for k in ("s", "a", "lp")}
    flat["adv"] = adv.T.flatten()
    flat["ret"] = ret.T.flatten()
    return flat, lengths


def update(net, opt, data, cfg):
    for _ in range(cfg.epochs):
        for idx in torch.randperm(len(data["a"])).split(cfg.minibatch):
            b = {k: v[idx] for k, v in data.items()}
            adv = (b["adv"] - b["adv"].mean()) / (b["adv"].std() + 1e-8)
            dist, v = net(b["s"])
            ratio = (dist.log_prob(b["a"]) - b["lp"]).exp()
            surr = torch.min(ratio * adv, ratio.clamp(1 - cfg.clip, 1 + cfg.clip) * adv)
            loss = -surr.mean() + 0.02 * (v - b["ret"]).pow(2).mean() - cfg.ent * dist.entropy().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()


def main(cfg=Config()):
    torch.manual_seed(cfg.seed)
    env = PoleBatch(cfg.envs, torch.Generator().manual_seed(cfg.seed))
    net = ActorCritic()
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    for it in range(cfg.iters):
        data, lengths = rollout(env, net, cfg)
        update(net, opt, data, cfg)
        if it % 6 == 0 and lengths:
            print(f"iter {it} episode length {sum(lengths) / len(lengths):.1f}")
    test = PoleBatch(64, torch.Generator().manual_seed(321))
    alive, score = torch.ones(64), torch.zeros(64)
    with torch.no_grad():
        for _ in range(200):
            _, r, d, _ = test.step(net(test.s)[0].probs.argmax(1))
            score += alive
            alive = alive * (1 - d)
    print(f"mean steps balanced: {score.mean():.2f}")


if __name__ == "__main__":
    main()
