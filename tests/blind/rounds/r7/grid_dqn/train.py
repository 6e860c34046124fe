"""DQN on a small grid with a goal and pits."""
import json
import random
import sys
from collections import deque
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

MOVES = [(0, 1), (1, 0), (0, -1), (-1, 0)]


class Grid:
    def __init__(self, size, pits, goal, max_steps, rng):
        self.size, self.pits, self.goal = size, {tuple(p) for p in pits}, tuple(goal)
        self.max_steps, self.rng = max_steps, rng
        self.starts = [(i, j) for i in range(size) for j in range(size) if (i, j) not in self.pits and (i, j) != self.goal]

    def reset(self, start=None):
        self.pos, self.t = start or self.rng.choice(self.starts), 0
        return self.obs()

    def obs(self):
        return self.pos[0] * self.size + self.pos[1]

    def step(self, a):
        i, j = (min(max(p + d, 0), self.size - 1) for p, d in zip(self.pos, MOVES[a]))
        self.pos, self.t = (i, j), self.t + 1
        if self.pos == self.goal:
            return self.obs(), 1.0, True, True
        if self.pos in self.pits:
            return self.obs(), -1.0, True, True
        return self.obs(), -0.01, False, self.t >= self.max_steps


class QNet(nn.Module):
    def __init__(self, n_states, hidden):
        super().__init__()
        self.body = nn.Sequential(nn.Embedding(n_states, hidden), nn.ReLU(), nn.Linear(hidden, 4))

    def forward(self, s):
        return self.body(s)


@torch.no_grad()
def success_rate(net, env):
    wins = 0
    for start in env.starts:
        s, over = env.reset(start), False
        while not over:
            s, r, _, over = env.step(net(torch.tensor(s)).argmax().item())
        wins += r == 1.0
    return wins / len(env.starts)


def main(folder):
    cfg = json.loads((folder / "agent.json").read_text())
    rng = random.Random(cfg["seed"])
    torch.manual_seed(cfg["seed"])
    env = Grid(cfg["size"], cfg["pits"], cfg["goal"], cfg["max_steps"], rng)
    test_env = Grid(cfg["size"], cfg["pits"], cfg["goal"], cfg["max_steps"], random.Random(0))
    online, target = QNet(cfg["size"] ** 2, 48), QNet(cfg["size"] ** 2, 48)
    target.load_state_dict(online.state_dict())
    opt = torch.optim.Adam(online.parameters(), lr=cfg["lr"])
    memory = deque(maxlen=cfg["memory"])
    s, losses = env.reset(), []
    for step in range(1, cfg["total_steps"] + 1):
        eps = max(cfg["eps_end"], 1.0 - step / cfg["eps_steps"])
        with torch.no_grad():
            a = rng.randrange(4) if rng.random() < eps else online(torch.tensor(s)).argmax().item()
        s2, r, done, over = env.step(a)
        memory.append((s, a, r, s2, float(done)))
        s = env.reset() if over else s2
        if step > cfg["warmup"] and step % 2 == 0:
            bs, ba, br, bs2, bd = (torch.tensor(c) for c in zip(*rng.sample(memory, cfg["batch_size"])))
            with torch.no_grad():
                y = br + cfg["gamma"] * (1 - bd) * target(bs2).max(dim=1).values
            q = online(bs).gather(1, ba[:, None]).squeeze(1)
            loss = F.smooth_l1_loss(q, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        if step % cfg["target_sync_every"] == 0:
            target.load_state_dict(online.state_dict())
        if step % 1000 == 0:
            recent = losses[-200:]
            print(f"step {step} eps {eps:.2f} td loss {sum(recent) / len(recent):.4f} greedy success {success_rate(online, test_env):.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
