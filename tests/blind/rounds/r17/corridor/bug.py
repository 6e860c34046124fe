import random
from collections import deque

import torch
import torch.nn as nn

N = 10
GAMMA = 0.95


class Corridor:
    """Cells 0..N-1. Stepping out on the left pays 0.1, reaching the last cell pays 1; both end the episode."""

    def reset(self):
        self.pos, self.t = random.randrange(1, N - 1), 0
        return self.pos

    def step(self, action):
        self.pos += 1 if action == 1 else -1
        self.t += 1
        if self.pos == N - 1:
            return self.pos, 1.0, True
        if self.pos == 0:
            return self.pos, 0.1, True
        return self.pos, -0.01, False


def features(cells):
    p = torch.as_tensor(cells, dtype=torch.float32).unsqueeze(1)
    centres = torch.arange(N, dtype=torch.float32)
    return torch.exp(-((p - centres) ** 2) / 0.5)


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(N, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, cells):
        return self.net(features(cells))


class DQN:
    def __init__(self):
        self.online, self.target = QNet(), QNet()
        self.target.load_state_dict(self.online.state_dict())
        self.opt = torch.optim.Adam(self.online.parameters(), lr=2e-3)
        self.loss_fn = nn.SmoothL1Loss()
        self.updates = 0

    def act(self, cell, eps):
        if random.random() < eps:
            return random.randrange(2)
        with torch.no_grad():
            return int(self.online([cell]).argmax(1))

    def learn(self, batch):
        s, a, r, s2, done = zip(*batch)
        a, r, done = torch.tensor(a), torch.tensor(r), torch.tensor(done, dtype=torch.float32)
        q = self.online(s).gather(1, a.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            goal = r + GAMMA * (1 - done) * self.target(s2).max(1).values
        loss = self.loss_fn(q, goal)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.updates += 1
        if self.updates % 50 == 0:
            self.target.load_state_dict(self.target.state_dict())
        return loss.item()


def play(agent, cell):
    env, ret, disc = Corridor(), 0.0, 1.0
    env.reset()
    env.pos = cell
    for _ in range(3 * N):
        cell, reward, done = env.step(agent.act(cell, 0.0))
        ret += disc * reward
        disc *= GAMMA
        if done:
            break
    return ret


def main():
    random.seed(1)
    torch.manual_seed(1)
    env, agent, memory = Corridor(), DQN(), deque(maxlen=4000)
    s, losses = env.reset(), []
    total_steps = 3000
    for step in range(total_steps):
        eps = max(0.1, 1 - step / 2000)
        a = agent.act(s, eps)
        s2, r, done = env.step(a)
        memory.append((s, a, r, s2, done))
        s = env.reset() if done or env.t >= 3 * N else s2
        if len(memory) >= 200 and step % 2 == 0:
            losses.append(agent.learn(random.sample(memory, 64)))
        if step % 500 == 499:
            print(f"step {step + 1} eps {eps:.2f} loss {sum(losses[-100:]) / 100:.5f}")
    returns = [play(agent, c) for c in range(1, N - 1)]
    print(f"greedy return, mean over starts {sum(returns) / len(returns):.3f}")


if __name__ == "__main__":
    main()
