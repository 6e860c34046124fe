import random
from collections import deque, namedtuple

import numpy as np
import torch
from torch import nn

Transition = namedtuple("Transition", "state action reward next_state done")
CFG = dict(size=5, gamma=0.95, lr=1e-3, batch=64, episodes=130, sync_every=100,
           eps_start=1.0, eps_end=0.05, eps_steps=2000, seed=3)


class KeyGrid:
    """Fetch the key, then walk to the door."""
    MOVES = [(0, 1), (1, 0), (0, -1), (-1, 0)]

    def __init__(self, size, seed):
        self.size = size
        self.rng = random.Random(seed)

    def reset(self):
        self.pos = (self.rng.randrange(self.size), self.rng.randrange(self.size))
        self.key, self.door = (0, self.size - 1), (self.size - 1, 0)
        self.has_key, self.t = False, 0
        return self.encode()

    def encode(self):
        onehot = np.zeros(2 * self.size + 1, dtype=np.float32)
        onehot[self.pos[0]] = 1
        onehot[self.size + self.pos[1]] = 1
        onehot[-1] = float(self.has_key)
        return onehot

    def step(self, action):
        dx, dy = self.MOVES[action]
        clip = lambda v: min(max(v, 0), self.size - 1)
        self.pos = (clip(self.pos[0] + dx), clip(self.pos[1] + dy))
        self.t += 1
        reward = -0.02
        if self.pos == self.key and not self.has_key:
            self.has_key, reward = True, 0.5
        done = self.has_key and self.pos == self.door
        if done:
            reward = 1.0
        return self.encode(), reward, done, self.t >= 40


class DQN:
    def __init__(self, n_in, n_act, cfg):
        self.cfg, self.n_act = cfg, n_act
        self.online = self.build(n_in, n_act)
        self.target = self.build(n_in, n_act)
        self.target.load_state_dict(self.online.state_dict())
        self.opt = torch.optim.Adam(self.online.parameters(), lr=cfg["lr"])
        self.memory = deque(maxlen=8000)
        self.updates = self.steps = 0

    @staticmethod
    def build(n_in, n_act):
        return nn.Sequential(nn.Linear(n_in, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                             nn.Linear(64, n_act))

    def epsilon(self):
        c = self.cfg
        frac = min(1.0, self.steps / c["eps_steps"])
        return c["eps_start"] + frac * (c["eps_end"] - c["eps_start"])

    def act(self, state, greedy=False):
        if not greedy:
            self.steps += 1
            if random.random() < self.epsilon():
                return random.randrange(self.n_act)
        with torch.no_grad():
            return int(self.online(torch.from_numpy(state)).argmax())

    def learn(self):
        batch = Transition(*zip(*random.sample(self.memory, self.cfg["batch"])))
        s, s2 = (torch.from_numpy(np.stack(x)) for x in (batch.state, batch.next_state))
        a = torch.tensor(batch.action).unsqueeze(1)
        r = torch.tensor(batch.reward)
        d = torch.tensor(batch.done, dtype=torch.float32)
        q = self.online(s).gather(1, a).squeeze(1)
        with torch.no_grad():
            y = r + self.cfg["gamma"] * (1 - d) * self.target(s2).max(1).values
        loss = nn.functional.smooth_l1_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.updates += 1
        if self.updates % self.cfg["sync_every"] == 0:
            self.online.load_state_dict(self.target.state_dict())


def play(env, agent, greedy):
    s, total = env.reset(), 0.0
    while True:
        a = agent.act(s, greedy)
        s2, r, done, timeout = env.step(a)
        if not greedy:
            agent.memory.append(Transition(s, a, r, s2, done))
            if len(agent.memory) > 500:
                agent.learn()
        s, total = s2, total + r
        if done or timeout:
            return total, done


if __name__ == "__main__":
    random.seed(CFG["seed"]), torch.manual_seed(CFG["seed"])
    env = KeyGrid(CFG["size"], CFG["seed"])
    agent = DQN(2 * CFG["size"] + 1, 4, CFG)
    for ep in range(CFG["episodes"]):
        ret, _ = play(env, agent, greedy=False)
        if ep % 40 == 0:
            print(f"episode {ep:3d} return {ret:.2f} eps {agent.epsilon():.2f}")
    test_env = KeyGrid(CFG["size"], 77)
    wins = [play(test_env, agent, greedy=True)[1] for _ in range(50)]
    print(f"door reached (greedy): {np.mean(wins):.3f}")
