"""Behaviour cloning of joint velocities for a two-link arm, then closed-loop reaching."""
import json
import os
import sys
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

folder = sys.argv[1]
cfg = json.load(open(os.path.join(folder, "policy.json")))
DT, HORIZON = 0.05, 50


class Policy(nn.Module):
    def __init__(self, n_obs, n_act, hidden, limit, mean, std):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.limit = limit
        self.net = nn.Sequential(nn.Linear(n_obs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                                 nn.Linear(hidden, n_act))

    def forward(self, obs):
        return self.limit * torch.tanh(self.net((obs - self.mean) / self.std))


def tip(q):
    a, b = q[:, 0], q[:, 0] + q[:, 1]
    return torch.stack([torch.cos(a) + 0.8 * torch.cos(b), torch.sin(a) + 0.8 * torch.sin(b)], 1)


@torch.no_grad()
def reach(policy, n, seed):
    policy.eval()
    gen = torch.Generator().manual_seed(seed)
    low, span = torch.tensor([-1.5, 0.4]), torch.tensor([3.0, 2.0])
    q = low + span * torch.rand(n, 2, generator=gen)
    goal = tip(low + span * torch.rand(n, 2, generator=gen))
    for _ in range(HORIZON):
        obs = torch.cat([torch.sin(q), torch.cos(q), tip(q), goal], 1)
        q = q + DT * policy(obs)
    error = (tip(q) - goal).norm(dim=1)
    return error.mean().item(), (error < 0.2).float().mean().item()


def main():
    torch.manual_seed(cfg["seed"])
    demos = np.load(os.path.join(folder, "demos.npz"))
    obs, act = torch.from_numpy(demos["obs"]), torch.from_numpy(demos["act"])
    held_out = torch.from_numpy(demos["episode"].astype(np.int64)) >= 75
    x_train, y_train, x_val, y_val = obs[~held_out], act[~held_out], obs[held_out], act[held_out]
    loader = DataLoader(TensorDataset(x_train, y_train), batch_size=cfg["batch_size"], shuffle=True)

    policy = Policy(obs.shape[1], act.shape[1], cfg["hidden"], cfg["action_limit"], x_train.mean(0), x_train.std(0))
    optimizer = torch.optim.Adam(policy.parameters(), lr=cfg["lr"])
    for epoch in range(1, cfg["epochs"] + 1):
        policy.train()
        total = 0.0
        for x, y in loader:
            loss = F.mse_loss(policy(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(x)
        if epoch % 6 == 0:
            policy.eval()
            with torch.no_grad():
                val = F.mse_loss(policy(x_val), y_val).item()
            print(f"epoch {epoch}  train {total / len(x_train):.4f}  val {val:.4f}")
    error, success = reach(policy, 300, seed=50)
    print(f"closed loop: distance to goal {error:.3f}, success {success:.3f}")


if __name__ == "__main__":
    main()
