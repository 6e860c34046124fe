import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

FLOORS = 6
N_ENV = 32
GAMMA = 0.95
SEED = 3
ARRIVAL = np.array([0.10, 0.02, 0.02, 0.03, 0.02, 0.08])


class ElevatorBank:
    """N independent shafts. Actions: 0 down, 1 open doors, 2 up."""

    def __init__(self, n, seed):
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.pos = self.rng.integers(0, FLOORS, self.n)
        self.calls = np.zeros((self.n, FLOORS), dtype=np.float32)
        self.age = np.zeros((self.n, FLOORS), dtype=np.float32)
        return self.obs()

    def obs(self):
        onehot = np.eye(FLOORS, dtype=np.float32)[self.pos]
        return np.concatenate([onehot, self.calls, np.minimum(self.age / 20.0, 2.0)], axis=1)

    def step(self, action):
        self.pos = np.clip(self.pos + (action == 2) - (action == 0), 0, FLOORS - 1)
        opened = np.where(action == 1)[0]
        self.calls[opened, self.pos[opened]] = 0
        new = self.rng.random((self.n, FLOORS)) < ARRIVAL
        self.calls = np.maximum(self.calls, new.astype(np.float32))
        self.age = (self.age + 1) * self.calls
        reward = -self.calls.sum(1) / FLOORS
        return self.obs(), reward.astype(np.float32)


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(3 * FLOORS, 96), nn.ReLU(),
            nn.Linear(96, 96), nn.ReLU(),
            nn.Linear(96, 3),
        )

    def forward(self, x):
        return self.net(x)


class Replay:
    def __init__(self, cap):
        self.buf = deque(maxlen=cap)

    def push(self, s, a, r, s2):
        for row in zip(s, a, r, s2):
            self.buf.append(row)

    def sample(self, k):
        batch = random.sample(self.buf, k)
        s, a, r, s2 = zip(*batch)
        return (torch.from_numpy(np.stack(s)), torch.tensor(a),
                torch.tensor(r), torch.from_numpy(np.stack(s2)))


def td_loss(online, target, batch):
    s, a, r, s2 = batch
    q = online(s).gather(1, a[:, None]).squeeze(1)
    with torch.no_grad():
        best = online(s2).argmax(1, keepdim=True)
        backup = r + GAMMA * target(s2).gather(1, best).squeeze(1)
    return F.smooth_l1_loss(q, backup)


@torch.no_grad()
def evaluate(online, seed, steps=300):
    env = ElevatorBank(64, seed)
    s = env.reset()
    waiting = []
    for _ in range(steps):
        a = online(torch.from_numpy(s)).argmax(1).numpy()
        s, r = env.step(a)
        waiting.append(-r.mean() * FLOORS)
    return float(np.mean(waiting))


def train(total_steps=1500, sync_every=100, batch_size=128):
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    env = ElevatorBank(N_ENV, SEED)
    online, target = QNet(), QNet()
    target.load_state_dict(online.state_dict())
    opt = torch.optim.Adam(online.parameters(), lr=1e-3)
    memory = Replay(30000)
    explore = np.random.default_rng(SEED + 1)

    s = env.reset()
    running = deque(maxlen=100)
    for step in range(1, total_steps + 1):
        eps = max(0.05, 1.0 - step / 600)
        with torch.no_grad():
            a = online(torch.from_numpy(s)).argmax(1).numpy()
        a = np.where(explore.random(N_ENV) < eps, explore.integers(0, 3, N_ENV), a)
        s2, r = env.step(a)
        memory.push(s, a, r, s2)
        s = s2
        if len(memory.buf) < 1000:
            continue
        loss = td_loss(online, target, memory.sample(batch_size))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(online.parameters(), 10.0)
        opt.step()
        running.append(loss.item())
        if step % sync_every == 0:
            target.load_state_dict(online.state_dict())
        if step % 500 == 0:
            print(f"step {step} eps {eps:.2f} td {np.mean(running):.4f} waiting {evaluate(online, 100, 100):.3f}")
    return online


if __name__ == "__main__":
    policy = train()
    rnd = ElevatorBank(64, 999)
    gen = np.random.default_rng(0)
    base = np.mean([-rnd.step(gen.integers(0, 3, 64))[1].mean() * FLOORS for _ in range(300)])
    print(f"random policy waiting {base:.3f}")
    print(f"mean_waiting {evaluate(policy, 999):.4f}")
