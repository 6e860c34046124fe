"""Offline fitted Q-learning from the logs of a small ferry: two docks, a quay near by with a low fare
and the harbour across the bay with the full fare.  The logs were written by a random helmsman."""
import argparse
import copy

import numpy as np
import torch
import torch.nn as nn

MOVES = np.array([[0.1, 0.0], [-0.1, 0.0], [0.0, 0.1], [0.0, -0.1]])
START, QUAY, HARBOUR = np.array([0.3, 0.5]), np.array([0.1, 0.5]), np.array([0.85, 0.6])


class Bay:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.p = START + self.rng.normal(0, 0.02, 2)
        return self.p.astype(np.float32)

    def step(self, a):
        self.p = np.clip(self.p + MOVES[a] + self.rng.normal(0, 0.015, 2), 0, 1)
        if np.linalg.norm(self.p - QUAY) < 0.12:
            return self.p.astype(np.float32), 0.3, True
        if np.linalg.norm(self.p - HARBOUR) < 0.14:
            return self.p.astype(np.float32), 1.0, True
        return self.p.astype(np.float32), 0.0, False


def collect(steps, seed):
    env, rng = Bay(seed), np.random.default_rng(seed + 1)
    obs, act, rew, end = [], [], [], []
    o, drift = env.reset(), rng.integers(4)
    for _ in range(steps):
        if rng.random() < 0.2:
            drift = rng.integers(4)
        a = drift if rng.random() < 0.5 else rng.integers(4)
        o2, r, d = env.step(a)
        obs.append(o), act.append(a), rew.append(r), end.append(d)
        o = env.reset() if d else o2
    obs.append(o)
    obs = torch.tensor(np.array(obs))
    return {"obs": obs[:-1], "next_obs": obs[1:], "act": torch.tensor(np.array(act)),
            "rew": torch.tensor(rew, dtype=torch.float32), "end": torch.tensor(end, dtype=torch.float32)}


def qnet():
    return nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))


@torch.no_grad()
def rollout(q, episodes, seed, limit=60):
    env, total = Bay(seed), 0.0
    for _ in range(episodes):
        o = env.reset()
        for _ in range(limit):
            a = q(torch.from_numpy(o)).argmax().item()
            o, r, d = env.step(a)
            total += r
            if d:
                break
    return total / episodes


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=2000)
    ap.add_argument("--gamma", type=float, default=0.95)
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--tau", type=float, default=0.02)
    args = ap.parse_args()
    torch.manual_seed(0)
    data = collect(20000, seed=4)
    print(f"{int(data['end'].sum())} trips in the log, mean fare {data['rew'].sum() / data['end'].sum():.2f}")
    q = qnet()
    target = copy.deepcopy(q).requires_grad_(False)
    opt = torch.optim.Adam(q.parameters(), lr=1e-3)
    for step in range(1, args.steps + 1):
        i = torch.randint(len(data["act"]), (args.batch,))
        qa = q(data["obs"][i] * 2 - 1).gather(1, data["act"][i, None]).squeeze(1)
        with torch.no_grad():
            best = target(data["next_obs"][i] * 2 - 1).max(1).values
            y = data["rew"][i] + args.gamma * best
        loss = nn.functional.smooth_l1_loss(qa, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            for a, b in zip(target.parameters(), q.parameters()):
                a.lerp_(b, args.tau)
        if step % 400 == 0:
            print(f"step {step} td loss {loss.item():.5f} mean q {qa.mean().item():.3f}")
    policy = lambda o: q(o * 2 - 1)
    print(f"mean fare per trip over 60 trips: {rollout(policy, 60, seed=99):.3f}")


if __name__ == "__main__":
    main()
