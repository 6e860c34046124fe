import random
import torch
from torch import nn

random.seed(1)
torch.manual_seed(1)
LENGTH, GAMMA = 12, 0.95


class Corridor:
    """Start anywhere; the end on the right pays 1, the pit on the left costs 1; moves slip now and then."""

    def reset(self):
        self.at, self.t = random.randrange(1, LENGTH - 1), 0
        return self.at

    def step(self, action):
        move = 1 if action == 1 else -1
        if random.random() < 0.15:
            move = -move
        self.at, self.t = self.at + move, self.t + 1
        if self.at <= 0:
            return self.at, -1.0, True
        if self.at >= LENGTH - 1:
            return self.at, 1.0, True
        return self.at, -0.02, False


def encode(states):
    s = torch.as_tensor(states, dtype=torch.float32)[:, None] / LENGTH
    k = torch.arange(1, 5).float()
    return torch.cat([torch.sin(3.14159 * k * s), torch.cos(3.14159 * k * s)], 1)


def make():
    return nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 2))


online, target = make(), make()


def sync():
    with torch.no_grad():
        for t, o in zip(target.parameters(), online.parameters()):
            t.data = o.data


sync()
opt = torch.optim.Adam(online.parameters(), lr=3e-3)
memory, env = [], Corridor()


def play(episodes):
    total = 0.0
    for _ in range(episodes):
        s, done = env.reset(), False
        while not done and env.t < 60:
            with torch.no_grad():
                s, r, done = env.step(online(encode([s])).argmax(1).item())
            total += r
    return total / episodes


print(f"before training: return {play(20):.3f}")
s = env.reset()
for step in range(1, 1201):
    if random.random() < max(0.1, 1 - step / 600):
        a = random.randrange(2)
    else:
        with torch.no_grad():
            a = online(encode([s])).argmax(1).item()
    s2, r, done = env.step(a)
    memory.append((s, a, r, s2, float(done)))
    s = env.reset() if done or env.t >= 60 else s2
    if step > 100 and step % 3 == 0:
        bs, ba, br, bs2, bd = zip(*random.sample(memory, 64))
        with torch.no_grad():
            goal = torch.tensor(br) + GAMMA * (1 - torch.tensor(bd)) * target(encode(bs2)).max(1).values
        q = online(encode(bs)).gather(1, torch.tensor(ba)[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(q, goal)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 60 == 0:
            sync()
    if step % 300 == 0:
        print(f"step {step} loss {loss.item():.4f} return {play(40):.3f}")
