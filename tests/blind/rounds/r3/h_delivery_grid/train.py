import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


def read_options(path):
    out = {}
    for line in path.read_text().splitlines():
        if "=" in line:
            key, value = (s.strip() for s in line.split("="))
            out[key] = float(value) if "." in value or "e" in value else int(value)
    return out


opts = read_options(Path(sys.argv[1]) / "options.txt")
torch.manual_seed(opts["seed"])
SIZE, LIMIT = 7, 30
MOVES = torch.tensor([[0, 1], [0, -1], [1, 0], [-1, 0]])


class Grid:
    """walk to the goal cell; every step costs, arriving pays"""

    def __init__(self, n, seed):
        self.g, self.n = torch.Generator().manual_seed(seed), n
        self.pos, self.goal = self.cells(n), self.cells(n)
        self.t = torch.zeros(n, dtype=torch.long)

    def cells(self, n):
        return torch.randint(0, SIZE, (n, 2), generator=self.g)

    def obs(self):
        return torch.cat([self.pos, self.goal], 1).float() / (SIZE - 1) * 2 - 1

    def step(self, a):
        self.pos = (self.pos + MOVES[a]).clamp(0, SIZE - 1)
        self.t = self.t + 1
        terminal = (self.pos == self.goal).all(1)
        reward = terminal.float() - 0.02
        nxt = self.obs()
        over = terminal | (self.t >= LIMIT)
        k = int(over.sum())
        self.pos[over], self.goal[over], self.t[over] = self.cells(k), self.cells(k), 0
        return nxt, reward, terminal, over


def make_net():
    return nn.Sequential(nn.Linear(4, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 4))


@torch.no_grad()
def arrival_rate(net):
    env = Grid(200, seed=31337)
    arrived, running = torch.zeros(200, dtype=torch.bool), torch.ones(200, dtype=torch.bool)
    for _ in range(LIMIT):
        _, _, terminal, over = env.step(net(env.obs()).argmax(1))
        arrived |= terminal & running
        running &= ~over
    return arrived.float().mean().item()


online, target = make_net(), make_net()
target.load_state_dict(online.state_dict())
optimizer = torch.optim.Adam(online.parameters(), lr=opts["lr"])
env = Grid(opts["envs"], opts["seed"])
cap = opts["steps"] * opts["envs"]
mem = [torch.zeros(cap, 4), torch.zeros(cap, dtype=torch.long), torch.zeros(cap), torch.zeros(cap, 4), torch.zeros(cap)]
filled = 0
for step in range(1, opts["steps"] + 1):
    eps = max(opts["eps_end"], 1 - step / (0.5 * opts["steps"]))
    obs = env.obs()
    with torch.no_grad():
        act = online(obs).argmax(1)
    act = torch.where(torch.rand(env.n) < eps, torch.randint(0, 4, (env.n,)), act)
    nxt, rew, terminal, _ = env.step(act)
    for buf, val in zip(mem, (obs, act, rew, nxt, terminal.float())):
        buf[filled : filled + env.n] = val
    filled += env.n
    i = torch.randint(0, filled, (opts["batch"],))
    o, a, r, o2, d = (buf[i] for buf in mem)
    with torch.no_grad():
        y = r + opts["gamma"] * (1 - d) * target(o2).max(1).values
    loss = F.smooth_l1_loss(online(o).gather(1, a[:, None]).squeeze(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % opts["target_sync"] == 0:
        target.load_state_dict(online.state_dict())
    if step % 150 == 0:
        print(f"step {step} eps {eps:.2f} loss {loss.item():.5f} arrival rate {arrival_rate(online):.3f}")
print(f"final arrival rate {arrival_rate(online):.3f}")
