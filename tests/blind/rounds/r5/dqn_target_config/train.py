"""DQN on a 5x5 grid with a pit: train.py FOLDER (agent.json)."""
import copy
import json
import os
import random
import sys
import torch
from torch import nn

SIZE, GOAL, PITS = 5, (4, 4), {(1, 1), (2, 3), (3, 1)}
MOVES = [(0, 1), (1, 0), (0, -1), (-1, 0)]


class Grid:
    def reset(self):
        self.cell, self.t = (0, 0), 0
        return self.observe()

    def observe(self):
        v = torch.zeros(SIZE * SIZE)
        v[self.cell[0] * SIZE + self.cell[1]] = 1
        return v

    def step(self, a):
        r, c = self.cell[0] + MOVES[a][0], self.cell[1] + MOVES[a][1]
        if 0 <= r < SIZE and 0 <= c < SIZE:
            self.cell = (r, c)
        self.t += 1
        end = self.cell == GOAL or self.cell in PITS
        reward = 1.0 if self.cell == GOAL else -1.0 if self.cell in PITS else -0.01
        return self.observe(), reward, end, self.t >= 40


class Agent:
    def __init__(self, cfg):
        self.cfg = cfg
        self.q = nn.Sequential(nn.Linear(SIZE * SIZE, 32), nn.ReLU(), nn.Linear(32, 4))
        self.target = copy.deepcopy(self.q).eval()
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=cfg["lr"])
        self.memory = []

    def act(self, s, eps):
        if random.random() < eps:
            return random.randrange(4)
        with torch.no_grad():
            return int(self.q(s).argmax())

    def learn(self):
        s, a, r, s2, end = zip(*random.sample(self.memory, self.cfg["batch_size"]))
        with torch.no_grad():
            future = self.target(torch.stack(s2)).max(1).values
        goal = torch.tensor(r) + self.cfg["gamma"] * future * (1 - torch.tensor(end, dtype=torch.float32))
        value = self.q(torch.stack(s)).gather(1, torch.tensor(a)[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(value, goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def greedy_return(agent):
    env, total, stop = Grid(), 0.0, False
    s = env.reset()
    while not stop:
        s, r, end, cut = env.step(agent.act(s, 0.0))
        total, stop = total + r, end or cut
    return total


cfg = json.load(open(os.path.join(sys.argv[1], "agent.json")))
random.seed(cfg["seed"])
torch.manual_seed(cfg["seed"])
agent, env, recent = Agent(cfg), Grid(), []
s = env.reset()
for step in range(cfg["steps"]):
    eps = max(cfg["eps_end"], cfg["eps_start"] - step / cfg["eps_steps"])
    a = agent.act(s, eps)
    s2, r, end, cut = env.step(a)
    agent.memory.append((s, a, r, s2, end))
    s = env.reset() if end or cut else s2
    if step >= cfg["learning_starts"]:
        recent.append(agent.learn())
    if step % cfg["target_sync"] == cfg["target_sync"] - 1:
        agent.target.load_state_dict(agent.q.state_dict())
    if step % 500 == 499:
        print(f"step {step} eps {eps:.2f} loss {sum(recent[-200:]) / len(recent[-200:]):.4f} greedy return {greedy_return(agent):.2f}")
print(f"greedy return {greedy_return(agent):.2f} (best 0.93)")
