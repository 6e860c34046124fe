"""REINFORCE on a batch of cart-poles, numpy dynamics."""
import argparse
import numpy as np
import torch
import torch.nn as nn


class CartPoles:
    def __init__(self, n, seed):
        self.n, self.rng = n, np.random.default_rng(seed)

    def reset(self):
        self.s = self.rng.uniform(-0.05, 0.05, (self.n, 4))
        self.alive = np.ones(self.n, bool)
        return self.s.copy()

    def step(self, a):
        x, v, th, w = self.s.T
        force = np.where(a == 1, 10.0, -10.0)
        tmp = (force + 0.05 * w ** 2 * np.sin(th)) / 1.1
        acc_th = (9.8 * np.sin(th) - np.cos(th) * tmp) / (0.5 * (4 / 3 - 0.1 * np.cos(th) ** 2 / 1.1))
        acc_x = tmp - 0.05 * acc_th * np.cos(th) / 1.1
        new = np.stack([x + 0.02 * v, v + 0.02 * acc_x, th + 0.02 * w, w + 0.02 * acc_th], 1)
        self.s = np.where(self.alive[:, None], new, self.s)
        reward = self.alive.astype(np.float32)
        self.alive &= (np.abs(self.s[:, 0]) < 2.4) & (np.abs(self.s[:, 2]) < 0.21)
        return self.s.copy(), reward


def rollout(policy, env, horizon, greedy=False):
    obs, logps, rewards, ents = env.reset(), [], [], []
    for _ in range(horizon):
        dist = torch.distributions.Categorical(logits=policy(torch.as_tensor(obs, dtype=torch.float32)))
        act = dist.logits.argmax(-1) if greedy else dist.sample()
        obs, r = env.step(act.numpy())
        logps.append(dist.log_prob(dist.sample()))
        ents.append(dist.entropy())
        rewards.append(r)
        if not env.alive.any():
            break
    return torch.stack(logps), torch.from_numpy(np.stack(rewards)), torch.stack(ents)


def reward_to_go(rewards, gamma):
    out, g = [], torch.zeros(rewards.shape[1])
    for r in rewards.flip(0):
        g = r + gamma * g
        out.append(g)
    return torch.stack(out[::-1])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=30)
    p.add_argument("--envs", type=int, default=24)
    p.add_argument("--gamma", type=float, default=0.97)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
    env = CartPoles(args.envs, args.seed)
    for it in range(args.iters):
        logp, rew, ent = rollout(policy, env, 200)
        ret = reward_to_go(rew, args.gamma)
        live = rew > 0
        adv = (ret - ret[live].mean()) / (ret[live].std() + 1e-6)
        loss = -(logp * adv)[live].mean() - 0.003 * ent[live].mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        opt.step()
        if it % 10 == 9:
            print(f"iter {it} loss {loss.item():.4f} mean length {rew.sum(0).mean():.1f}")
    with torch.no_grad():
        _, rew, _ = rollout(policy, CartPoles(64, 999), 200)
    print("final episode length", rew.sum(0).mean().item())


if __name__ == "__main__":
    main()
