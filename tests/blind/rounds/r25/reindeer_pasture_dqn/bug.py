"""Where to move a reindeer herd each week: deep Q-learning on a simulated lichen pasture."""
import argparse
import copy
import random
from collections import deque

import numpy as np
import torch
from torch import nn


class Pasture:
    """Valleys in a row. Lichen regrows slowly when it is left alone; a move costs condition; the far valley is rich."""

    VALLEYS, WEEKS = 5, 24

    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.lichen = self.rng.uniform(0.35, 0.75, self.VALLEYS)
        self.lichen[-1] = self.rng.uniform(0.9, 1.0)
        self.lichen[1:4] *= 0.35
        self.at, self.week = 0, 0
        return self.view()

    def view(self):
        place = np.eye(self.VALLEYS)[self.at]
        return np.concatenate([place, self.lichen, [self.week / self.WEEKS]]).astype(np.float32)

    def step(self, move):
        target = int(np.clip(self.at + (move - 1), 0, self.VALLEYS - 1))
        walked = target != self.at
        self.at = target
        rich = 2.4 if self.at == self.VALLEYS - 1 else 0.8
        eaten = 0.16 * self.lichen[self.at]
        gain = rich * eaten - (0.10 if walked else 0.0)
        self.lichen[self.at] -= 0.5 * eaten
        others = np.arange(self.VALLEYS) != self.at
        self.lichen[others] = np.minimum(self.lichen[others] + 0.01 * self.rng.uniform(0.5, 1.5), 1.0)
        self.week += 1
        return self.view(), float(gain), self.week >= self.WEEKS


def q_net(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, n_out))


class Herder:
    def __init__(self, args):
        self.args = args
        self.env = Pasture(np.random.default_rng(args.seed))
        n_in = len(self.env.reset())
        self.q = q_net(n_in, 3)
        self.slow = copy.deepcopy(self.q)
        self.opt = torch.optim.Adam(self.q.parameters(), lr=args.lr)
        self.memory = deque(maxlen=20000)
        self.dice = random.Random(args.seed)

    def act(self, view, eps):
        if self.dice.random() < eps:
            return self.dice.randrange(3)
        with torch.no_grad():
            return int(self.q(torch.from_numpy(view)).argmax())

    def follow(self, rate):
        with torch.no_grad():
            for old, new in zip(self.slow.parameters(), self.q.parameters()):
                old = old + rate * (new - old)

    def learn(self):
        rows = self.dice.sample(self.memory, self.args.batch)
        s, a, r, s2, end = (np.array(col) for col in zip(*rows))
        s, s2 = torch.from_numpy(s), torch.from_numpy(s2)
        r, end = torch.tensor(r, dtype=torch.float32), torch.tensor(end, dtype=torch.float32)
        with torch.no_grad():
            later = self.slow(s2).amax(1)
        goal = r + self.args.gamma * (1 - end) * later
        guess = self.q(s)[torch.arange(len(a)), torch.from_numpy(a)]
        loss = nn.functional.smooth_l1_loss(guess, goal)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.follow(self.args.tau)
        return loss.item()

    def season(self, eps, store=True):
        view, total, end = self.env.reset(), 0.0, False
        while not end:
            a = self.act(view, eps)
            nxt, gain, end = self.env.step(a)
            if store:
                self.memory.append((view, a, gain, nxt, float(end)))
            view, total = nxt, total + gain
        return total

    def score(self, n=40):
        return float(np.mean([self.season(0.0, store=False) for _ in range(n)]))

    def train(self):
        for k in range(1, self.args.seasons + 1):
            eps = max(0.05, 1.0 - k / (0.6 * self.args.seasons))
            self.season(eps)
            if len(self.memory) < 500:
                continue
            loss = np.mean([self.learn() for _ in range(self.args.updates)])
            if k % 40 == 0:
                print(f"season {k:3d}  eps {eps:.2f}  td loss {loss:.5f}  condition gained {self.score(10):.2f}")
        print(f"condition gained in a season: {self.score():.3f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--seasons", type=int, default=220)
    ap.add_argument("--updates", type=int, default=12)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--gamma", type=float, default=0.98)
    ap.add_argument("--tau", type=float, default=0.02)
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    Herder(args).train()
