import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


class Corridor:
    """Walk along a slippery ridge: one target at the far end, pits on the way that need a jump."""
    length, pits = 12, (3, 6, 9)

    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.x, self.t = 0, 0
        return self.features()

    def features(self):
        f = np.zeros(self.length + 2, dtype=np.float32)
        f[self.x] = 1
        f[-2] = float(self.x + 1 in self.pits)
        f[-1] = self.t / 30
        return f

    def step(self, a):
        # 0 back, 1 forward, 2 jump
        self.t += 1
        if self.rng.random() < 0.05:
            a = self.rng.integers(3)
        nxt = max(0, self.x + (-1, 1, 2)[a])
        cost = (0.05, 0.05, 0.15)[a]
        if nxt in self.pits:
            return self.features(), -1.0 - cost, True
        self.x = min(nxt, self.length - 1)
        if self.x == self.length - 1:
            return self.features(), 2.0 - cost, True
        return self.features(), 0.1 * (nxt - self.x == 0) - cost, self.t >= 30


class Policy(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, 32), nn.Tanh(), nn.Linear(32, n_out))

    def forward(self, x):
        return Categorical(logits=self.net(x), validate_args=False)


def rewards_to_go(rewards, gamma):
    out, running = [], 0.0
    for r in reversed(rewards):
        running = r + gamma * running
        out.append(running)
    return out


def run_episode(env, policy):
    obs, log_probs, rewards, done = env.reset(), [], [], False
    ents = []
    while not done:
        dist = policy(torch.from_numpy(obs))
        a = dist.sample()
        log_probs.append(dist.log_prob(a))
        ents.append(dist.entropy())
        obs, r, done = env.step(int(a))
        rewards.append(r)
    return torch.stack(log_probs), torch.stack(ents), rewards


def main(seed=4, iterations=45, per_iter=7, gamma=0.97):
    torch.manual_seed(seed)
    env = Corridor(np.random.default_rng(seed))
    policy = Policy(Corridor.length + 2, 3)
    optim = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for it in range(iterations):
        lps, rets, entropies, totals = [], [], [], []
        for _ in range(per_iter):
            lp, ent, rewards = run_episode(env, policy)
            lps.append(lp)
            entropies.append(ent)
            rets.extend(rewards_to_go(rewards, gamma))
            totals.append(sum(rewards))
        g = torch.tensor(rets, dtype=torch.float32)
        g = (g - g.mean()) / (g.std() + 1e-8)
        loss = -(torch.cat(lps) * g).mean() - 0.01 * torch.cat(entropies).mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
        if it % 15 == 0:
            print(f"iter {it:3d}  mean return {np.mean(totals):.3f}")
    env = Corridor(np.random.default_rng(1234))
    with torch.no_grad():
        scores = [sum(run_episode(env, policy)[2]) for _ in range(30)]
    print(f"evaluation return: {np.mean(scores):.3f}")


if __name__ == "__main__":
    main()
