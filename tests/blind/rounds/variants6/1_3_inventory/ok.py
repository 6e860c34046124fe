"""Q-learning for replenishing three products with shared truck capacity."""
import itertools

import numpy as np
import torch
import torch.nn as nn


class Warehouse:
    def __init__(self, seed, n=3, cap=12):
        self.rng = np.random.default_rng(seed)
        self.n, self.cap = n, cap
        self.mean_demand = np.array([1.0, 2.0, 3.0])
        self.orders = np.array([o for o in itertools.product((0, 3, 6), repeat=n) if sum(o) <= 9], float)
        self.state = np.zeros(n, dtype=np.float32)

    @property
    def n_actions(self):
        return len(self.orders)

    def reset(self):
        self.state[:] = self.rng.integers(0, self.cap + 1, self.n)
        return self.state.copy()

    def step(self, a):
        order = self.orders[a]
        demand = self.rng.poisson(self.mean_demand)
        sold = np.minimum(self.state, demand)
        self.state -= sold
        self.state += order
        spill = np.maximum(self.state - self.cap, 0)
        np.minimum(self.state, self.cap, out=self.state)
        reward = 2.0 * sold.sum() - 1.0 * (demand - sold).sum() - 0.15 * self.state.sum()
        reward -= 0.6 * (order > 0).sum() + 0.5 * order.sum() + 1.0 * spill.sum()
        return self.state.copy(), reward / 5.0


class QNet(nn.Module):
    def __init__(self, n_obs, n_act, width=64, scale=12.0):
        super().__init__()
        self.scale = scale
        self.body = nn.Sequential(nn.Linear(n_obs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.value = nn.Linear(width, 1)
        self.adv = nn.Linear(width, n_act)

    def forward(self, x):
        h = self.body(x / self.scale)
        adv = self.adv(h)
        return self.value(h) + adv - adv.mean(1, keepdim=True)


class Buffer:
    def __init__(self):
        self.rows = []

    def push(self, *row):
        self.rows.append(row)

    def sample(self, rng, k):
        pick = rng.integers(0, len(self.rows), k)
        s, a, r, s2 = zip(*(self.rows[i] for i in pick))
        return (torch.from_numpy(np.stack(s)), torch.tensor(a),
                torch.tensor(r, dtype=torch.float32), torch.from_numpy(np.stack(s2)))


def greedy(net, s):
    with torch.no_grad():
        return int(net(torch.from_numpy(s)[None]).argmax(1))


def train(steps=3500, gamma=0.9, seed=1):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    env = Warehouse(seed)
    q, qt = QNet(env.n, env.n_actions), QNet(env.n, env.n_actions)
    qt.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), lr=1e-3)
    buf, s = Buffer(), env.reset()
    for t in range(steps):
        eps = max(0.1, 1 - t / (0.6 * steps))
        a = int(rng.integers(env.n_actions)) if rng.random() < eps else greedy(q, s)
        s2, r = env.step(a)
        buf.push(s, a, r, s2)
        s = env.reset() if (t + 1) % 50 == 0 else s2
        if t < 300:
            continue
        bs, ba, br, bs2 = buf.sample(rng, 64)
        with torch.no_grad():
            best = q(bs2).argmax(1, keepdim=True)
            target = br + gamma * qt(bs2).gather(1, best)[:, 0]
        pred = q(bs).gather(1, ba[:, None])[:, 0]
        loss = nn.functional.smooth_l1_loss(pred, target)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(q.parameters(), 10.0)
        opt.step()
        if t % 150 == 0:
            qt.load_state_dict(q.state_dict())
        if t % 700 == 0:
            print(f"t={t} eps={eps:.2f} loss={loss.item():.4f}")
    return q


def profit(net, seed=500, weeks=30, days=50):
    env, out = Warehouse(seed), []
    for _ in range(weeks):
        s, total = env.reset(), 0.0
        for _ in range(days):
            s, r = env.step(greedy(net, s))
            total += r
        out.append(total / days)
    return float(np.mean(out))


if __name__ == "__main__":
    print(f"profit per day: {profit(train()):.3f}")
