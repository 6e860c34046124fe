# Moves a container crane's trolley to a target position without leaving the load swinging.
# Double DQN, three motor commands (left, coast, right).
import random
from collections import deque

import numpy as np
import torch
from torch import nn

SEED = 11
GAMMA = 0.97
BATCH = 64
STEPS = 3000
WARMUP = 300
TARGET_EVERY = 100
HORIZON = 80


class Crane:
    """State: distance to the target (m), trolley speed, rope angle (rad), angular speed."""
    dt, rope, g = 0.15, 6.0, 9.81
    push = (-1.0, 0.0, 1.0)

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.t = 0
        self.state = np.array([self.rng.uniform(-5, 5), 0.0, self.rng.normal(0, 0.05), 0.0])
        return self.state.copy()

    def step(self, a):
        acc = self.push[a] + 0.02 * self.rng.normal()
        for _ in range(3):
            x, v, th, w = self.state
            h = self.dt / 3
            self.state[3] += h * (-self.g / self.rope * np.sin(th) - acc / self.rope * np.cos(th) - 0.1 * w)
            self.state[2] += h * self.state[3]
            self.state[1] += h * (acc - 0.05 * v)
            self.state[0] += h * self.state[1]
        self.t += 1
        x, v, th, w = self.state
        reward = 1.0 - 0.25 * abs(x) - 0.1 * abs(v) - 0.5 * abs(th)
        out = abs(x) > 9
        if out:
            reward -= 10.0
        return self.state, reward, out, self.t >= HORIZON


SCALE = np.array([5.0, 2.0, 0.3, 0.4])


def to_tensor(states):
    return torch.as_tensor(np.asarray(states) / SCALE, dtype=torch.float32)


class QNet(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.value, self.adv = nn.Linear(hidden, 1), nn.Linear(hidden, 3)

    def forward(self, s):
        h = self.body(s)
        a = self.adv(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


def evaluate(q, episodes=10):
    env, total = Crane(seed=9000), []
    for _ in range(episodes):
        s, ret, over = env.reset(), 0.0, False
        while not over:
            with torch.no_grad():
                a = q(to_tensor(s[None])).argmax(1).item()
            s, r, done, cut = env.step(a)
            ret, over = ret + r, done or cut
        total.append(ret)
    return float(np.mean(total))


random.seed(SEED)
torch.manual_seed(SEED)
q, target = QNet(), QNet()
target.load_state_dict(q.state_dict())
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
buffer = deque(maxlen=3000)
env = Crane(SEED)
s, running = env.reset(), 0.0

for step in range(1, STEPS + 1):
    eps = max(0.05, 1.0 - step / 1200)
    if random.random() < eps:
        a = random.randrange(3)
    else:
        with torch.no_grad():
            a = q(to_tensor(s[None])).argmax(1).item()
    s2, r, done, cut = env.step(a)
    buffer.append((s, a, r, s2, float(done)))
    s = env.reset() if done or cut else s2

    if step >= WARMUP and step % 2 == 0:
        bs, ba, br, bs2, bd = zip(*random.sample(buffer, BATCH))
        ba, br, bd = torch.tensor(ba), torch.tensor(br, dtype=torch.float32), torch.tensor(bd)
        with torch.no_grad():
            nxt = to_tensor(bs2)
            best = q(nxt).argmax(1, keepdim=True)
            y = br + GAMMA * (1 - bd) * target(nxt).gather(1, best).squeeze(1)
        pred = q(to_tensor(bs)).gather(1, ba[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(pred, y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(q.parameters(), 10.0)
        opt.step()
        running = 0.98 * running + 0.02 * loss.item()
    if step % TARGET_EVERY == 0:
        target.load_state_dict(q.state_dict())
    if step % 500 == 0:
        print(f"step {step}  td loss {running:.4f}  eps {eps:.2f}")

print(f"mean return over 10 test episodes: {evaluate(q):.2f}")
