import json
import sys

import torch
import torch.nn.functional as F
from torch import nn

with open(f"{sys.argv[1]}/config.json") as f:
    cfg = json.load(f)
print(cfg)
torch.manual_seed(cfg["seed"])
LENGTH, START, LIMIT = 14, 4, 40  # left end pays 0.3, right end pays 1


class Corridor:
    def __init__(self, n):
        self.pos, self.t, self.n = torch.full((n,), START), torch.zeros(n, dtype=torch.long), n

    def step(self, a):
        self.pos = self.pos + 2 * a - 1
        self.t = self.t + 1
        left, right = self.pos <= 0, self.pos >= LENGTH - 1
        reward = 0.3 * left.float() + right.float()
        nxt, terminal = self.pos.clone(), left | right
        over = terminal | (self.t >= LIMIT)
        self.pos = torch.where(over, torch.tensor(START), self.pos)
        self.t = torch.where(over, torch.tensor(0), self.t)
        return nxt, reward, terminal, over


class QNet(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(LENGTH, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, pos):
        return self.net(F.one_hot(pos, LENGTH).float())


@torch.no_grad()
def evaluate(q):
    env, total = Corridor(1), 0.0
    for _ in range(LIMIT):
        _, r, _, over = env.step(q(env.pos).argmax(1))
        total += r.item()
        if over.item():
            break
    return total


q, target = QNet(cfg["hidden"]), QNet(cfg["hidden"])
target.load_state_dict(q.state_dict())
optimizer = torch.optim.Adam(q.parameters(), lr=cfg["lr"])
env = Corridor(cfg["envs"])
memory = [[], [], [], [], []]
for step in range(1, cfg["steps"] + 1):
    eps = max(0.1, 1 - step / (0.6 * cfg["steps"]))
    pos = env.pos.clone()
    with torch.no_grad():
        greedy = q(pos).argmax(1)
    act = torch.where(torch.rand(env.n) < eps, torch.randint(0, 2, (env.n,)), greedy)
    nxt, rew, terminal, _ = env.step(act)
    for store, value in zip(memory, (pos, act, rew, nxt, terminal.float())):
        store.append(value)
    if step < 30:
        continue
    when, who = torch.randint(0, step, (cfg["batch"],)), torch.randint(0, env.n, (cfg["batch"],))
    p, a, r, p2, d = (torch.stack([store[i][j] for i, j in zip(when.tolist(), who.tolist())]) for store in memory)
    with torch.no_grad():
        y = r + cfg["gamma"] * (1 - d) * target(p2.clamp(0, LENGTH - 1)).max(1).values
    loss = F.mse_loss(q(p).gather(1, a[:, None]).squeeze(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % cfg["sync"] == 0:
        target.load_state_dict(q.state_dict())
    if step % 100 == 0:
        print(f"step {step} eps {eps:.2f} loss {loss.item():.5f} greedy return {evaluate(q):.2f}")
print(f"greedy return {evaluate(q):.2f} of 1.00")
