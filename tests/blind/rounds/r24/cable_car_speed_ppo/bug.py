"""PPO dispatcher for a gondola lift: choose the rope speed every two minutes."""
import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical

N_ENV, T, UPDATES, EPOCHS, MB = 24, 40, 60, 3, 320
GAMMA, LAM, CLIP, ENT, VF, R_SCALE = 0.97, 0.95, 0.2, 0.005, 0.5, 0.2
SPEEDS = np.array([1.5, 3.0, 4.5, 6.0], dtype=np.float32)  # m/s


class GondolaLine:
    """n independent lines; a day has 90 decisions and then starts over."""

    def __init__(self, n, seed):
        self.n, self.rng = n, np.random.default_rng(seed)
        self.reset_rows(np.ones(n, bool), first=True)

    def reset_rows(self, rows, first=False):
        if first:
            self.wind, self.queue, self.t, self.speed, self.peak = (np.zeros(self.n) for _ in range(5))
            self.t = self.rng.integers(0, 60, self.n).astype(float)
        else:
            self.t[rows] = 0
        k = rows.sum()
        self.wind[rows] = self.rng.gamma(4.0, 2.5, k)
        self.queue[rows] = self.rng.uniform(0, 60, k)
        self.speed[rows] = 3.0
        self.peak[rows] = self.rng.uniform(20, 45, k)

    def obs(self):
        flow = np.exp(-((self.t - self.peak) / 15) ** 2)
        cols = [self.wind / 10 - 1, self.queue / 60 - 1, self.speed / 3 - 1, self.t / 45 - 1, flow]
        return torch.tensor(np.stack(cols, 1), dtype=torch.float32)

    def step(self, action):
        v = SPEEDS[action]
        arrivals = self.rng.poisson(6 + 34 * np.exp(-((self.t - self.peak) / 15) ** 2))
        carried = np.minimum(self.queue + arrivals, 7.5 * v)
        self.queue = np.minimum(self.queue + arrivals - carried, 150)
        sway = np.maximum(self.wind * v / 45 - 0.8, 0)
        reward = carried / 20 - self.queue / 60 - 3.0 * sway - 0.02 * v ** 2 - 0.1 * np.abs(v - self.speed)
        self.speed = v.astype(float)
        self.wind = np.clip(self.wind + 0.1 * (10 - self.wind) + self.rng.normal(0, 1.8, self.n), 0, 28)
        self.t += 1
        done = self.t >= 90
        self.reset_rows(done)
        return torch.tensor(reward, dtype=torch.float32), torch.tensor(done, dtype=torch.float32)


class Agent(nn.Module):
    def __init__(self, d=5, h=64):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(d, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, len(SPEEDS)))
        self.v = nn.Sequential(nn.Linear(d, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 1))

    def forward(self, x):
        return Categorical(logits=self.pi(x)), self.v(x).squeeze(-1)


def collect(env, agent):
    obs, acts, logps, rews, vals, dones = [], [], [], [], [], []
    with torch.no_grad():
        for _ in range(T):
            o = env.obs()
            dist, v = agent(o)
            a = dist.sample()
            r, d = env.step(a.numpy())
            for buf, item in zip((obs, acts, logps, rews, vals, dones), (o, a, dist.log_prob(a), r * R_SCALE, v, d)):
                buf.append(item)
        next_v = agent(env.obs())[1]
    advs, last = [None] * T, torch.zeros(N_ENV)
    for t in reversed(range(T)):
        delta = rews[t] + GAMMA * (1 - dones[t]) * next_v - vals[t]
        last = delta + GAMMA * LAM * (1 - dones[t]) * last
        advs[t], next_v = last, vals[t]
    obs, acts, logps, vals = (torch.stack(b).flatten(0, 1) for b in (obs, acts, logps, vals))
    advs = torch.stack(advs, dim=1).flatten()
    return obs, acts, logps, advs, advs + vals, torch.stack(rews).mean().item() / R_SCALE


@torch.no_grad()
def evaluate(agent, seed=991, n=64, steps=180):
    env, total = GondolaLine(n, seed), 0.0
    for _ in range(steps):
        dist, _ = agent(env.obs())
        total += env.step(dist.probs.argmax(-1).numpy())[0].mean().item()
    return total / steps


def main():
    torch.manual_seed(4)
    env, agent = GondolaLine(N_ENV, 17), Agent()
    opt = torch.optim.Adam(agent.parameters(), lr=7e-4, eps=1e-5)
    for it in range(UPDATES):
        obs, acts, logps, advs, rets, mean_r = collect(env, agent)
        advs = (advs - advs.mean()) / (advs.std() + 1e-8)
        for _ in range(EPOCHS):
            for idx in torch.randperm(len(obs)).split(MB):
                dist, v = agent(obs[idx])
                ratio = (dist.log_prob(acts[idx]) - logps[idx]).exp()
                pg = -torch.min(ratio * advs[idx], ratio.clamp(1 - CLIP, 1 + CLIP) * advs[idx]).mean()
                v_loss = (v - rets[idx]).pow(2).mean()
                ent = dist.entropy().mean()
                loss = pg + VF * v_loss - ENT * ent
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                opt.step()
        if it % 10 == 9:
            print(f"update {it + 1:3d}  rollout reward {mean_r:.3f}  v_loss {v_loss.item():.3f}  entropy {ent.item():.3f}")
    print(f"validation reward per step: {evaluate(agent):.3f}")


if __name__ == "__main__":
    main()
