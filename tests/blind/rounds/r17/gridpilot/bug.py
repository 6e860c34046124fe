"""Actor-critic on a small warehouse grid with many copies of the world in parallel."""
import torch
import torch.nn as nn
import torch.nn.functional as F

N = 6
MOVES = torch.tensor([[-1, 0], [1, 0], [0, -1], [0, 1]])
SIDE_EXIT, MAIN_EXIT = 3 * N + 2, 0 * N + 5
LIMIT = 40


class Grid:
    def __init__(self, copies):
        self.copies = copies
        self.pos = self.start(copies)
        self.age = torch.zeros(copies, dtype=torch.long)
        self.total = torch.zeros(copies)
        self.finished = []

    @staticmethod
    def start(n):
        free = torch.tensor([c for c in range(N * N) if c not in (SIDE_EXIT, MAIN_EXIT)])
        return free[torch.randint(0, len(free), (n,))]

    def observe(self):
        return F.one_hot(self.pos, N * N).float()

    def step(self, action):
        rc = torch.stack([self.pos // N, self.pos % N], 1) + MOVES[action]
        rc = rc.clamp(0, N - 1)
        self.pos = rc[:, 0] * N + rc[:, 1]
        self.age += 1
        reward = 1.0 * (self.pos == MAIN_EXIT) + 0.4 * (self.pos == SIDE_EXIT)
        done = (self.pos == MAIN_EXIT) | (self.pos == SIDE_EXIT)
        self.total += reward
        over = done | (self.age >= LIMIT)
        self.finished += self.total[over].tolist()
        fresh = self.start(self.copies)
        self.pos = torch.where(over, fresh, self.pos)
        self.age[over] = 0
        self.total[over] = 0
        return self.observe(), reward, done.float()


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(N * N, 64), nn.Tanh())
        self.pi = nn.Linear(64, 4)
        self.v = nn.Linear(64, 1)

    def forward(self, o):
        h = self.body(o)
        return torch.distributions.Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def main(updates=300, copies=64, horizon=5, gamma=0.97):
    torch.manual_seed(8)
    env, net = Grid(copies), ActorCritic()
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    obs = env.observe()
    for update in range(1, updates + 1):
        logps, values, rewards, dones, ents = [], [], [], [], []
        for _ in range(horizon):
            dist, v = net(obs)
            a = dist.sample()
            obs, r, d = env.step(a)
            logps.append(dist.log_prob(a))
            values.append(v)
            ents.append(dist.entropy())
            rewards.append(r)
            dones.append(d)
        with torch.no_grad():
            ret = net(obs)[1]
            returns = []
            for r, d in zip(reversed(rewards), reversed(dones)):
                ret = r + gamma * ret
                returns.insert(0, ret)
        returns, values = torch.stack(returns), torch.stack(values)
        adv = (returns - values).detach()
        policy_loss = -(torch.stack(logps) * adv).mean()
        value_loss = F.mse_loss(values, returns)
        loss = policy_loss + 0.5 * value_loss - 0.01 * torch.stack(ents).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        if update % 50 == 0:
            recent = env.finished[-200:]
            print(f"update {update}: value loss {value_loss.item():.4f}, return per episode {sum(recent) / len(recent):.3f}")

    test = Grid(500)
    with torch.no_grad():
        while len(test.finished) < 2000:
            test.step(net(test.observe())[0].sample())
    print(f"mean return of 2000 test episodes: {sum(test.finished[:2000]) / 2000:.4f}")


if __name__ == "__main__":
    main()
