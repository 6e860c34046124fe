import copy
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(111)
CELLS, GAMMA, RUNS = 9, 0.85, 32


class Corridors:
    """Start in cell 3.  Left end: small prize.  Right end: large prize.  Both end the episode."""
    def __init__(self, runs):
        self.cell = torch.full((runs,), 3)
        self.over = torch.zeros(runs)

    def observe(self):
        return F.one_hot(self.cell, CELLS).float()

    def step(self, action):
        self.cell += 2 * action - 1
        left, right = self.cell == 0, self.cell == CELLS - 1
        self.over[left | right] = 1.0
        reward = 0.3 * left.float() + 1.0 * right.float()
        return self.observe(), reward, self.over.clone()

    def restart(self):
        ended = self.over > 0
        self.cell[ended] = 3
        self.over[ended] = 0.0


class Memory:
    def __init__(self):
        self.rows = []

    def add(self, *parts):
        self.rows.append(tuple(p.clone() for p in parts))
        self.rows = self.rows[-200:]

    def sample(self, n):
        columns = [torch.cat(c) for c in zip(*self.rows)]
        pick = torch.randint(0, len(columns[0]), (n,))
        return [c[pick] for c in columns]


@torch.no_grad()
def trial(q, limit=30):
    env, total = Corridors(1), 0.0
    q.eval()
    for t in range(limit):
        _, reward, over = env.step(q(env.observe()).argmax(1))
        total += GAMMA ** t * reward.item()
        if over.item():
            break
    q.train()
    return total


q = nn.Sequential(nn.Linear(CELLS, 32), nn.ReLU(), nn.Linear(32, 2))
frozen = copy.deepcopy(q)
opt = torch.optim.Adam(q.parameters(), lr=3e-3)
env, memory = Corridors(RUNS), Memory()
for step in range(1, 401):
    obs = env.observe()
    with torch.no_grad():
        greedy = q(obs).argmax(1)
    explore = torch.rand(RUNS) < max(0.3, 1 - step / 200)
    action = torch.where(explore, torch.randint(0, 2, (RUNS,)), greedy)
    following, reward, over = env.step(action)
    env.restart()
    memory.add(obs, action, reward, following, over)
    s, a, r, s2, end = memory.sample(128)
    with torch.no_grad():
        goal = r + GAMMA * (1 - end) * frozen(s2).amax(1)
    loss = F.smooth_l1_loss(q(s).gather(1, a[:, None]).squeeze(1), goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        frozen.load_state_dict(q.state_dict())
    if step % 80 == 0:
        start = q(F.one_hot(torch.tensor([3]), CELLS).float()).max().item()
        print(f"step {step} td {loss.item():.4f} predicted return {start:.3f} achieved {trial(q):.3f}")
