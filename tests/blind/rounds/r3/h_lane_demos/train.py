import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
folder = Path(sys.argv[1])
EPOCHS, BATCH, HORIZON = 20, 64, 80


def load(name):
    z = np.load(folder / name)
    return torch.from_numpy(z["obs"]).float(), torch.from_numpy(z["steer"]).float()


class Policy(nn.Module):
    def __init__(self, obs):
        super().__init__()
        self.register_buffer("mean", obs.mean(0))
        self.register_buffer("std", obs.std(0))
        self.net = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), nn.Tanh())

    def forward(self, obs):
        return self.net((obs - self.mean) / self.std).squeeze(-1)


@torch.no_grad()
def simulate(policy, n=100):
    """mean distance from the lane centre over a drive"""
    g = torch.Generator().manual_seed(2024)
    offset, heading, curv = 1.5 * torch.randn(n, generator=g), 0.3 * torch.randn(n, generator=g), torch.zeros(n)
    policy.eval()
    total = 0.0
    for _ in range(HORIZON):
        steer = policy(torch.stack([offset, heading, curv], 1))
        curv = 0.9 * curv + 0.02 * torch.randn(n, generator=g)
        heading = heading + 0.2 * steer - curv
        offset = offset + 0.4 * torch.sin(heading)
        total += offset.abs().mean().item()
    return total / HORIZON


train_obs, train_act = load("demos_train.npz")
val_obs, val_act = load("demos_val.npz")
print(f"{len(train_obs)} training and {len(val_obs)} validation samples")
loader = DataLoader(TensorDataset(train_obs, train_act), batch_size=BATCH, shuffle=True)
policy = Policy(train_obs)
optimizer = torch.optim.Adam(policy.parameters(), lr=2e-3, weight_decay=1e-5)
for epoch in range(1, EPOCHS + 1):
    policy.train()
    total = 0.0
    for obs, act in loader:
        loss = F.mse_loss(policy(obs), act)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    policy.eval()
    with torch.no_grad():
        val = F.mse_loss(policy(val_obs), val_act).item()
    if epoch % 4 == 0:
        print(f"epoch {epoch} train mse {total / len(loader):.4f} val mse {val:.4f}")
print(f"val mse {val:.4f}, mean |offset| in simulation {simulate(policy):.3f}")
