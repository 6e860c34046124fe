"""Advantage actor-critic on a 6x6 grid: fetch the key, then reach the door."""
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

SIZE, MAX_T = 6, 24
MOVES = [(-1, 0), (1, 0), (0, -1), (0, 1)]


class GridEnvs:
    """A bank of independent episodes stepped together."""

    def __init__(self, n, seed):
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.pos = np.zeros((n, 2), dtype=int)
        self.key = np.zeros((n, 2), dtype=int)
        self.door = np.zeros((n, 2), dtype=int)
        self.has = np.zeros(n, dtype=bool)
        self.t = np.zeros(n, dtype=int)
        for i in range(n):
            self.reset(i)

    def reset(self, i):
        cells = self.rng.choice(SIZE * SIZE, size=3, replace=False)
        self.pos[i], self.key[i], self.door[i] = [divmod(int(c), SIZE) for c in cells]
        self.has[i], self.t[i] = False, 0

    def obs(self):
        goal = np.where(self.has[:, None], self.door, self.key)
        out = np.concatenate([self.pos / SIZE, (self.key - self.pos) / SIZE, (self.door - self.pos) / SIZE,
                              self.has[:, None], (goal - self.pos) / 2], axis=1)
        return torch.from_numpy(out.astype(np.float32))

    def step(self, actions):
        reward = np.full(self.n, -0.02, dtype=np.float32)
        done = np.zeros(self.n, dtype=np.float32)
        ended = []
        for i, a in enumerate(actions):
            self.pos[i] = np.clip(self.pos[i] + MOVES[a], 0, SIZE - 1)
            self.t[i] += 1
            if not self.has[i] and (self.pos[i] == self.key[i]).all():
                self.has[i] = True
                reward[i] += 0.3
            elif self.has[i] and (self.pos[i] == self.door[i]).all():
                reward[i] += 1.0
                done[i] = 1.0
            if done[i] or self.t[i] >= MAX_T:
                ended.append((i, float(done[i])))
                done[i] = 1.0
                self.reset(i)
        return reward, done, ended


class ActorCritic(nn.Module):
    def __init__(self, d_in=9, hidden=64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(d_in, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, len(MOVES))
        self.v = nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.pi(h), self.v(h).squeeze(-1)


@torch.no_grad()
def success_rate(model, episodes=100):
    model.eval()
    envs, first = GridEnvs(episodes, seed=999), {}
    while len(first) < episodes:
        logits, _ = model(envs.obs())
        for i, won in envs.step(Categorical(logits=logits).sample().tolist())[2]:
            first.setdefault(i, won)
    return float(np.mean(list(first.values())))


def main(updates=200, horizon=10, n_envs=16, gamma=0.95, ent_coef=0.01, lr=1.5e-3):
    torch.set_num_threads(1)
    torch.manual_seed(8)
    envs = GridEnvs(n_envs, seed=8)
    model = ActorCritic()
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    recent = []
    for update in range(1, updates + 1):
        model.train()
        log_probs, values, entropies, rewards, dones = [], [], [], [], []
        for _ in range(horizon):
            logits, value = model(envs.obs())
            dist = Categorical(logits=logits)
            action = dist.sample()
            reward, done, ended = envs.step(action.tolist())
            log_probs.append(dist.log_prob(action))
            values.append(value)
            entropies.append(dist.entropy())
            rewards.append(torch.from_numpy(reward))
            dones.append(torch.from_numpy(done))
            recent += [won for _, won in ended]
        with torch.no_grad():
            ret = model(envs.obs())[1]
        returns = []
        for r, d in zip(reversed(rewards), reversed(dones)):
            ret = r + gamma * (1 - d) * ret
            returns.append(ret)
        returns = torch.stack(returns[::-1])
        values, log_probs = torch.stack(values), torch.stack(log_probs)
        advantage = (returns - values).detach()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        actor = -(log_probs * advantage).mean()
        critic = (returns - values).pow(2).mean()
        loss = actor + 0.5 * critic - ent_coef * torch.stack(entropies).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        if update % 25 == 0:
            rate = np.mean(recent[-200:]) if recent else 0.0
            print(f"update {update:4d} loss {loss.item():.4f} critic {critic.item():.4f} "
                  f"train success {rate:.3f} eval success {success_rate(model):.3f}")


if __name__ == "__main__":
    main()
