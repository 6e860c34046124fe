import copy
import random
from collections import deque
import numpy as np
import torch
from torch import nn

LENGTH, GAMMA, BATCH = 8, 0.95, 64
LEVERS = [0, 1, 1, 0, 1, 0, 0, 1]


class Corridor:
    """Doors in a row: the lever that moves on alternates; a wrong lever moves back. The exit pays one."""

    def __init__(self):
        self.obs = np.zeros(LENGTH, dtype=np.float32)

    def reset(self):
        self.obs[:] = 0
        self.pos, self.t = 0, 0
        self.obs[0] = 1
        return self.obs

    def step(self, action):
        self.obs[self.pos] = 0
        self.pos = min(max(self.pos + (1 if action == LEVERS[self.pos] else -1), 0), LENGTH - 1)
        self.obs[self.pos] = 1
        self.t += 1
        done = self.pos == LENGTH - 1
        reward = 1.0 if done else -0.02
        return self.obs, reward, done, self.t >= 60


def q_network():
    return nn.Sequential(nn.Linear(LENGTH, 32), nn.ReLU(), nn.Linear(32, 2))


def learn(q, target, optimizer, memory):
    s, a, r, s2, done = zip(*random.sample(memory, BATCH))
    s, s2 = torch.from_numpy(np.stack(s)), torch.from_numpy(np.stack(s2))
    a, r, done = torch.tensor(a), torch.tensor(r), torch.tensor(done, dtype=torch.float32)
    with torch.no_grad():
        goal = r + GAMMA * (1 - done) * target(s2).max(1).values
    loss = nn.functional.smooth_l1_loss(q(s).gather(1, a[:, None]).squeeze(1), goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def greedy_return(q):
    env, total = Corridor(), 0.0
    s, done, cut = env.reset(), False, False
    while not (done or cut):
        with torch.no_grad():
            s, r, done, cut = env.step(int(q(torch.from_numpy(s)).argmax()))
        total += r
    return total


def main():
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    env, q = Corridor(), q_network()
    target = copy.deepcopy(q)
    optimizer = torch.optim.Adam(q.parameters(), lr=3e-3)
    memory, step, losses = deque(maxlen=5000), 0, [0.0]
    for episode in range(60):
        s, done, cut = env.reset(), False, False
        epsilon = max(0.1, 1 - episode / 30)
        while not (done or cut):
            with torch.no_grad():
                greedy = int(q(torch.from_numpy(s)).argmax())
            a = random.randrange(2) if random.random() < epsilon else greedy
            s2, r, done, cut = env.step(a)
            memory.append((s, a, r, s2, done))
            s, step = s2, step + 1
            if len(memory) >= 200:
                losses.append(learn(q, target, optimizer, memory))
            if step % 50 == 0:
                target.load_state_dict(q.state_dict())
        if episode % 10 == 9:
            print(f"episode {episode} loss {np.mean(losses[-100:]):.4f} greedy return {greedy_return(q):.2f}")
    print(f"final greedy return {greedy_return(q):.2f} (best possible {1 - 0.02 * (LENGTH - 2):.2f})")


if __name__ == "__main__":
    main()
