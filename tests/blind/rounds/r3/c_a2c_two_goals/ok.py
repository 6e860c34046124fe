import argparse

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--updates", type=int, default=300)
parser.add_argument("--envs", type=int, default=32)
parser.add_argument("--n-step", type=int, default=8)
parser.add_argument("--gamma", type=float, default=0.97)
parser.add_argument("--lr", type=float, default=3e-3)
parser.add_argument("--ent-coef", type=float, default=0.06)
parser.add_argument("--vf-coef", type=float, default=0.5)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
torch.manual_seed(args.seed)

LENGTH, START, LIMIT = 12, 2, 40  # cells 0..11; cell 0 pays 0.3, cell 11 pays 1


class Corridor:
    def __init__(self, n, seed):
        self.n, self.gen = n, torch.Generator().manual_seed(seed)
        self.pos = torch.full((n,), START)
        self.t = torch.zeros(n, dtype=torch.long)

    def obs(self):
        return F.one_hot(self.pos, LENGTH).float()

    def step(self, action):
        slip = torch.rand(self.n, generator=self.gen) < 0.05
        move = torch.where(slip, 1 - action, action) * 2 - 1
        self.pos = (self.pos + move).clamp(0, LENGTH - 1)
        self.t += 1
        reward = 0.3 * (self.pos == 0).float() + (self.pos == LENGTH - 1).float()
        terminal = (self.pos == 0) | (self.pos == LENGTH - 1)
        nxt = self.obs()
        over = terminal | (self.t >= LIMIT)
        self.pos[over], self.t[over] = START, 0
        return nxt, reward, terminal, over


class ActorCritic(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(LENGTH, hidden), nn.Tanh())
        self.pi, self.v = nn.Linear(hidden, 2), nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.body(x)
        return torch.distributions.Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def collect(model, env, steps):
    data = []
    for _ in range(steps):
        obs = env.obs()
        with torch.no_grad():
            action = model(obs)[0].sample()
            nxt, reward, terminal, over = env.step(action)
            boot = model(nxt)[1] * (~terminal)
        data.append((obs, action, reward, boot, over))
    returns, g = [], data[-1][3]
    for obs, action, reward, boot, over in reversed(data):
        g = reward + args.gamma * torch.where(over, boot, g)
        returns.append(g)
    returns.reverse()
    return torch.cat([d[0] for d in data]), torch.cat([d[1] for d in data]), torch.cat(returns)


@torch.no_grad()
def evaluate(model, n=256):
    env, got, alive = Corridor(n, seed=77), torch.zeros(n), torch.ones(n, dtype=torch.bool)
    for _ in range(LIMIT):
        _, reward, terminal, over = env.step(model(env.obs())[0].probs.argmax(1))
        got += reward * alive
        alive &= ~over
    return got.mean().item()


model, env = ActorCritic(), Corridor(args.envs, args.seed)
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
for update in range(1, args.updates + 1):
    obs, action, returns = collect(model, env, args.n_step)
    dist, value = model(obs)
    advantage = (returns - value).detach()
    policy_loss = -(dist.log_prob(action) * advantage).mean()
    value_loss = F.mse_loss(value, returns)
    entropy = dist.entropy().mean()
    loss = policy_loss + args.vf_coef * value_loss - args.ent_coef * entropy
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    if update % 60 == 0:
        print(f"update {update} policy {policy_loss.item():+.4f} value {value_loss.item():.4f} entropy {entropy.item():.3f}")
print(f"mean evaluation return {evaluate(model):.3f} (best possible about 1.0)")
