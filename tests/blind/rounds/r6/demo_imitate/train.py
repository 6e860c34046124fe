"""Behaviour cloning of a reaching controller from logged demonstrations."""
import os
import sys
import numpy as np
import torch
import torch.nn as nn

folder = sys.argv[1]
torch.manual_seed(1)
log = np.load(os.path.join(folder, "demos.npz"))
obs, act = torch.from_numpy(log["obs"]), torch.from_numpy(log["act"])
n_ep = len(obs)
order = torch.randperm(n_ep)
tr, va = order[: n_ep * 4 // 5], order[n_ep * 4 // 5:]
flat = lambda z, i: z[i].reshape(-1, z.shape[-1])
o_tr, a_tr, o_va, a_va = flat(obs, tr), flat(act, tr), flat(obs, va), flat(act, va)
mu, sd = o_tr.mean(0), o_tr.std(0)

policy = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
opt = torch.optim.Adam(policy.parameters(), lr=2e-3)


def control(o):
    return 2.1 * torch.tanh(policy((o - mu) / sd))


@torch.no_grad()
def closed_loop(n=100, steps=60):
    policy.eval()
    g = torch.Generator().manual_seed(77)
    pos, goal = torch.rand(n, 2, generator=g) * 2 - 1, torch.rand(n, 2, generator=g) * 2 - 1
    vel = torch.zeros(n, 2)
    for _ in range(steps):
        u = control(torch.cat([pos, vel, goal], 1)).clamp(-2, 2)
        vel = 0.9 * vel + 0.1 * u
        pos = pos + 0.1 * vel
    dist = (pos - goal).norm(dim=1)
    return dist.mean().item(), (dist < 0.1).float().mean().item()


for epoch in range(1, 31):
    policy.train()
    tot = 0.0
    for idx in torch.randperm(len(o_tr)).split(64):
        loss = nn.functional.mse_loss(control(o_tr[idx]), a_tr[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item() * len(idx)
    if epoch % 5 == 0:
        policy.eval()
        with torch.no_grad():
            val = nn.functional.mse_loss(control(o_va), a_va).item()
        print(f"epoch {epoch:2d} bc loss {tot / len(o_tr):.4f} val {val:.4f}")

torch.save({"policy": policy.state_dict(), "mu": mu, "sd": sd}, "/tmp/reach_policy.pt")
print("closed loop: final distance %.3f  success %.2f" % closed_loop())
