"""Lane keeping by imitation: behaviour cloning on clean demos, then DAgger rounds."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 3
HORIZON = 60
DT = 0.1
SPEED = 2.0
CENTERS = torch.linspace(-3.5, 3.5, 15)


def sense(state):
    """state: (N, 2) lateral offset, heading -> lane camera features + heading."""
    offset, heading = state[:, :1], state[:, 1:]
    bumps = torch.exp(-((offset - CENTERS) ** 2) / 0.3)
    return torch.cat([bumps, torch.sin(heading), torch.cos(heading)], 1)


def expert(state):
    offset, heading = state[:, 0], state[:, 1]
    target_heading = -0.9 * torch.tanh(offset)
    return torch.clamp(2.5 * (target_heading - heading), -1.5, 1.5)


def step(state, steer, gen):
    offset, heading = state[:, 0], state[:, 1]
    offset = offset + DT * SPEED * torch.sin(heading)
    heading = heading + DT * steer.clamp(-1.5, 1.5) + 0.02 * torch.randn(len(state), generator=gen)
    heading = (heading + math.pi) % (2 * math.pi) - math.pi
    return torch.stack([offset.clamp(-4, 4), heading], 1)


def start(n, width, gen):
    offset = (torch.rand(n, generator=gen) * 2 - 1) * width
    heading = 0.2 * torch.randn(n, generator=gen)
    return torch.stack([offset, heading], 1)


def expert_demos(n, gen):
    state, obs, act = start(n, 0.4, gen), [], []
    for _ in range(HORIZON):
        steer = expert(state)
        obs.append(sense(state))
        act.append(steer)
        state = step(state, steer, gen)
    return torch.cat(obs), torch.cat(act)


@torch.no_grad()
def rollout(policy, n, width, gen):
    """Drive with the policy and record what was seen for the aggregated data set."""
    policy.eval()
    state, obs, act, offsets = start(n, width, gen), [], [], []
    for _ in range(HORIZON):
        seen = sense(state)
        steer = policy(seen).squeeze(1)
        obs.append(seen)
        act.append(expert(state))
        state = step(state, steer, gen)
        offsets.append(state[:, 0].abs())
    return torch.cat(obs), torch.cat(act), torch.stack(offsets)


def fit(policy, optimizer, obs, act, epochs, gen):
    policy.train()
    for _ in range(epochs):
        total = 0.0
        order = torch.randperm(len(obs), generator=gen)
        for idx in order.split(128):
            loss = F.mse_loss(policy(obs[idx]).squeeze(1), act[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
    return total / len(obs)


def main():
    torch.manual_seed(SEED)
    gen = torch.Generator().manual_seed(SEED)
    policy = nn.Sequential(nn.Linear(len(CENTERS) + 2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)

    obs, act = expert_demos(20, gen)
    loss = fit(policy, optimizer, obs, act, 15, gen)
    print(f"cloning      samples {len(obs):6d}  loss {loss:.4f}")

    for rnd in range(1, 7):
        new_obs, new_act, _ = rollout(policy, 20, 2.5, gen)
        obs, act = torch.cat([obs, new_obs]), torch.cat([act, new_act])
        loss = fit(policy, optimizer, obs, act, 8, gen)
        eval_gen = torch.Generator().manual_seed(100)
        _, _, offsets = rollout(policy, 200, 2.5, eval_gen)
        print(f"dagger {rnd}     samples {len(obs):6d}  loss {loss:.4f}  mean offset {offsets[30:].mean():.3f}")

    _, _, offsets = rollout(policy, 400, 2.5, torch.Generator().manual_seed(200))
    success = (offsets[-10:].max(0).values < 0.4).float().mean()
    print(f"test: mean offset {offsets[30:].mean():.3f}  success rate {success:.3f}")


if __name__ == "__main__":
    main()
