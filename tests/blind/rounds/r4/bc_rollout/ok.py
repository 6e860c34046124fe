"""Clone an LQR expert on a linearised cart and score the clone in simulation."""
import torch
import torch.nn as nn

DT = 0.05
A = torch.tensor([[1, DT, 0, 0], [0, 1, -0.7 * DT, 0], [0, 0, 1, DT], [0, 0, 11.0 * DT, 1]])
B = torch.tensor([0.0, 1.0 * DT, 0.0, -1.5 * DT])
K = torch.tensor([-1.0, -2.5, -30.0, -8.0])
SCALE = torch.tensor([2.0, 1.0, 0.05, 0.2])


def expert(obs):
    return (-(obs @ K)).clamp(-10, 10)


def step(obs, u):
    return obs @ A.T + u[:, None] * B


def demonstrations(episodes, horizon, gen):
    obs = SCALE * torch.randn(episodes, 4, generator=gen)
    seen, acts = [], []
    for _ in range(horizon):
        u = expert(obs)
        seen.append(obs)
        acts.append(u)
        noisy = u + 1.0 * torch.randn(episodes, generator=gen)
        obs = step(obs, noisy)
    return torch.cat(seen), torch.cat(acts)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, obs):
        return self.net(obs).squeeze(-1)


class Normalizer:
    def __init__(self, data):
        self.mean, self.std = data.mean(0), data.std(0)

    def __call__(self, obs):
        return (obs - self.mean) / self.std


@torch.no_grad()
def rollout(policy, normalize, gen, episodes=64, horizon=100):
    policy.eval()
    obs = SCALE * torch.randn(episodes, 4, generator=gen)
    alive = torch.ones(episodes, dtype=torch.bool)
    cost = torch.zeros(episodes)
    for _ in range(horizon):
        u = policy(normalize(obs)).clamp(-10, 10)
        obs = step(obs, u).clamp(-50, 50)
        alive &= obs[:, 2].abs() < 0.6
        cost += obs[:, 0] ** 2 + 10 * obs[:, 2] ** 2
    return alive.float().mean().item(), (cost / horizon).median().item()


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    obs, act = demonstrations(80, 50, gen)
    val_obs, val_act = demonstrations(20, 50, gen)
    normalize = Normalizer(obs)
    policy = Policy()
    opt = torch.optim.Adam(policy.parameters(), lr=2e-3)
    obs_n, val_n = normalize(obs), normalize(val_obs)
    for epoch in range(15):
        policy.train()
        total = 0.0
        for idx in torch.randperm(len(obs)).split(100):
            loss = nn.functional.mse_loss(policy(obs_n[idx]), act[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        policy.eval()
        with torch.no_grad():
            val = nn.functional.mse_loss(policy(val_n), val_act).item()
        print(f"epoch {epoch:2d} bc loss {total / len(obs):.4f} val {val:.4f}")
    survived, cost = rollout(policy, normalize, torch.Generator().manual_seed(2))
    print(f"closed loop: survival {survived:.2f} median cost {cost:.3f}")


if __name__ == "__main__":
    main()
