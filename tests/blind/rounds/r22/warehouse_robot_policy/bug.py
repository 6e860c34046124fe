"""REINFORCE on a small warehouse grid: a robot starts anywhere and has to reach the dock."""
import torch
from torch import nn
from torch.distributions import Categorical

GRID = [
    ".....",
    ".##..",
    "...#.",
    ".#...",
    "....D",
]
SIDE = len(GRID)
MOVES = torch.tensor([[-1, 0], [1, 0], [0, -1], [0, 1]])


class Warehouse:
    """A batch of independent robots on the same floor plan."""

    def __init__(self, n, gen):
        self.n, self.gen = n, gen
        self.wall = torch.tensor([[c == "#" for c in row] for row in GRID])
        self.dock = torch.tensor([SIDE - 1, SIDE - 1])
        self.free = [(r, c) for r in range(SIDE) for c in range(SIDE) if GRID[r][c] == "."]

    def reset(self):
        pick = torch.randint(len(self.free), (self.n,), generator=self.gen)
        self.pos = torch.tensor(self.free)[pick]
        self.done = torch.zeros(self.n, dtype=torch.bool)
        return self.observe()

    def observe(self):
        cell = self.pos[:, 0] * SIDE + self.pos[:, 1]
        return nn.functional.one_hot(cell, SIDE * SIDE).float()

    def step(self, action):
        new = self.pos + MOVES[action]
        inside = ((new >= 0) & (new < SIDE)).all(1)
        safe = new.clamp(0, SIDE - 1)
        ok = inside & ~self.wall[safe[:, 0], safe[:, 1]] & ~self.done
        self.pos = torch.where(ok[:, None], safe, self.pos)
        alive = ~self.done
        arrived = alive & (self.pos == self.dock).all(1)
        reward = torch.where(arrived, 1.0, -0.02) * alive
        self.done = self.done | arrived
        return self.observe(), reward, alive


def rollout(env, policy, horizon, greedy=False):
    obs = env.reset()
    logps, rewards, masks, ents = [], [], [], []
    for _ in range(horizon):
        dist = Categorical(logits=policy(obs))
        action = dist.probs.argmax(1) if greedy else dist.sample()
        obs, reward, alive = env.step(action)
        logps.append(dist.log_prob(action))
        ents.append(dist.entropy())
        rewards.append(reward)
        masks.append(alive.float())
        if env.done.all():
            break
    return torch.stack(logps), torch.stack(ents), torch.stack(rewards), torch.stack(masks)


def returns_to_go(rewards, gamma):
    out = torch.zeros_like(rewards)
    running = torch.zeros(rewards.shape[1])
    for t in range(len(rewards)):
        running = rewards[t] + gamma * running
        out[t] = running
    return out


def main():
    torch.manual_seed(40)
    gen = torch.Generator().manual_seed(40)
    env = Warehouse(48, gen)
    policy = nn.Sequential(nn.Linear(SIDE * SIDE, 32), nn.Tanh(), nn.Linear(32, 4))
    opt = torch.optim.Adam(policy.parameters(), lr=0.02)
    gamma, horizon, updates = 0.95, 25, 90

    for it in range(updates):
        logp, ent, rew, mask = rollout(env, policy, horizon)
        ret = returns_to_go(rew, gamma)
        base = (ret * mask).sum() / mask.sum()
        adv = (ret - base)
        loss = -((logp * adv + 0.01 * ent) * mask).sum() / mask.sum()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        opt.step()
        if it % 30 == 29:
            print(f"update {it + 1} reward {rew.sum(0).mean():.3f} arrived {env.done.float().mean():.3f}")

    test = Warehouse(500, torch.Generator().manual_seed(7))
    with torch.no_grad():
        rollout(test, policy, horizon)
    print(f"share of robots that reach the dock within {horizon} moves: {test.done.float().mean():.4f}")


if __name__ == "__main__":
    main()
