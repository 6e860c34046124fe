import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)
N_ENVS, STEPS, BATCH, GAMMA, SYNC = 8, 1700, 64, 0.98, 50
LIMIT = 200


class VecCartPole:
    """n independent cart-poles that reset themselves"""

    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.s = rng.uniform(-0.05, 0.05, (n, 4))
        self.t = np.zeros(n, dtype=int)

    def obs(self):
        return self.s.astype(np.float32)

    def step(self, a):
        x, v, th, om = self.s.T
        f = np.where(a == 1, 10.0, -10.0)
        tmp = (f + 0.05 * om ** 2 * np.sin(th)) / 1.1
        dom = (9.8 * np.sin(th) - np.cos(th) * tmp) / (0.5 * (4 / 3 - 0.1 * np.cos(th) ** 2 / 1.1))
        dv = tmp - 0.05 * dom * np.cos(th) / 1.1
        self.s = np.stack([x + 0.02 * v, v + 0.02 * dv, th + 0.02 * om, om + 0.02 * dom], 1)
        self.t += 1
        nxt = self.obs()
        terminal = (np.abs(self.s[:, 0]) > 2.4) | (np.abs(self.s[:, 2]) > 0.21)
        over = terminal | (self.t >= LIMIT)
        lengths = self.t[over].copy()
        self.s[over] = self.rng.uniform(-0.05, 0.05, (over.sum(), 4))
        self.t[over] = 0
        return nxt, np.ones(self.n, np.float32), terminal.astype(np.float32), lengths


class Replay:
    def __init__(self, size):
        self.size, self.n, self.i = size, 0, 0
        self.o, self.o2 = np.zeros((size, 4), np.float32), np.zeros((size, 4), np.float32)
        self.a, self.r, self.d = np.zeros(size, np.int64), np.zeros(size, np.float32), np.zeros(size, np.float32)

    def add(self, o, a, r, o2, d):
        idx = (self.i + np.arange(len(a))) % self.size
        self.o[idx], self.a[idx], self.r[idx], self.o2[idx], self.d[idx] = o, a, r, o2, d
        self.i = (self.i + len(a)) % self.size
        self.n = min(self.n + len(a), self.size)

    def sample(self, k):
        j = rng.integers(0, self.n, k)
        return [torch.from_numpy(z[j]) for z in (self.o, self.a, self.r, self.o2, self.d)]


def make_q():
    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))


def td_loss(online, target, batch):
    obs, act, rew, nxt, terminal = batch
    q = online(obs).gather(1, act[:, None]).squeeze(1)
    with torch.no_grad():
        best = target(nxt).max(1).values
        y = rew + GAMMA * best
    return F.smooth_l1_loss(q, y)


def evaluate(online, episodes=16):
    env = VecCartPole(episodes, np.random.default_rng(123))
    first = np.zeros(episodes)
    alive = np.ones(episodes, bool)
    for _ in range(LIMIT):
        with torch.no_grad():
            a = online(torch.from_numpy(env.obs())).argmax(1).numpy()
        _, r, terminal, _ = env.step(a)
        first += r * alive
        alive &= terminal == 0
    return first.mean()


online, target = make_q(), make_q()
target.load_state_dict(online.state_dict())
optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
env, memory = VecCartPole(N_ENVS, rng), Replay(20_000)
finished = []
for step in range(1, STEPS + 1):
    eps = max(0.05, 1 - step / 800)
    obs = env.obs()
    with torch.no_grad():
        greedy = online(torch.from_numpy(obs)).argmax(1).numpy()
    act = np.where(rng.random(N_ENVS) < eps, rng.integers(0, 2, N_ENVS), greedy)
    nxt, rew, terminal, lengths = env.step(act)
    memory.add(obs, act, rew, nxt, terminal)
    finished += list(lengths)
    if memory.n >= 500:
        loss = td_loss(online, target, memory.sample(BATCH))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(online.parameters(), 10.0)
        optimizer.step()
    if step % SYNC == 0:
        target.load_state_dict(online.state_dict())
    if step % 340 == 0:
        print(f"step {step} eps {eps:.2f} td loss {loss.item():.4f} mean episode {np.mean(finished[-40:]):.1f}")
print(f"greedy evaluation return {evaluate(online):.1f}")
