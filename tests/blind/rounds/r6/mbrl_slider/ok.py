"""Model-based control of a damped slider: learn the dynamics, then train a policy through the learned model."""
import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(5)
np.random.seed(5)
DT, H = 0.1, 15
cfg = dict(n_traj=40, traj_len=50, dyn_epochs=12, dyn_lr=3e-3, pi_iters=120, pi_lr=5e-3, batch=64, pi_batch=256)


def plant(s, a):
    x, v = s[..., 0], s[..., 1]
    acc = 2.0 * torch.tanh(a[..., 0]) - 0.4 * v - 0.6 * torch.sin(2 * x)
    v2 = v + DT * acc
    x2 = x + DT * v2
    return torch.stack([x2, v2], -1)


def stage_cost(s, a):
    return (s[..., 0] - 1.0) ** 2 + 0.1 * s[..., 1] ** 2 + 0.01 * a[..., 0] ** 2


def start_states(n):
    return torch.stack([torch.rand(n) * 3 - 1.5, torch.randn(n) * 0.5], -1)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.dyn = nn.Sequential(nn.Linear(3, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 2))
        self.policy = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))

    def imagine(self, s, a):
        return s + DT * self.dyn(torch.cat([s, a], -1))

    def act(self, s):
        return 2.0 * torch.tanh(self.policy(s))


@torch.no_grad()
def real_return(agent, s, steps=40):
    agent.eval()
    cost = 0.0
    for _ in range(steps):
        a = agent.act(s)
        cost = cost + stage_cost(s, a).mean()
        s = plant(s, a)
    return cost.item()


@torch.no_grad()
def model_error(agent, s, a, s2):
    agent.eval()
    return ((agent.imagine(s, a) - s2) / DT).pow(2).mean().item()


# ---- logged exploration
S, A, S2 = [], [], []
s = start_states(cfg["n_traj"])
a = torch.zeros(cfg["n_traj"], 1)
for t in range(cfg["traj_len"]):
    a = (0.8 * a + 0.9 * torch.randn_like(a)).clamp(-2, 2)
    s2 = plant(s, a)
    S.append(s); A.append(a); S2.append(s2)
    s = torch.where((s2[:, :1].abs() > 3).expand_as(s2), start_states(len(s2)), s2)
S, A, S2 = torch.stack(S, 1), torch.stack(A, 1), torch.stack(S2, 1)
tr = [z[:32].reshape(-1, z.shape[-1]) for z in (S, A, S2)]
va = [z[32:].reshape(-1, z.shape[-1]) for z in (S, A, S2)]

agent = Agent()
eval_starts = start_states(200)
print("untrained policy, real cost %.2f" % real_return(agent, eval_starts))

# ---- phase 1: dynamics
opt_dyn = torch.optim.Adam(agent.dyn.parameters(), lr=cfg["dyn_lr"])
for ep in range(cfg["dyn_epochs"]):
    agent.train()
    tot = 0.0
    for idx in torch.randperm(len(tr[0])).split(cfg["batch"]):
        loss = ((agent.imagine(tr[0][idx], tr[1][idx]) - tr[2][idx]) / DT).pow(2).mean()
        opt_dyn.zero_grad()
        loss.backward()
        opt_dyn.step()
        tot += loss.item() * len(idx)
    if ep % 4 == 3:
        print(f"dyn epoch {ep + 1:2d} train {tot / len(tr[0]):.4f} val {model_error(agent, *va):.4f}")

# ---- phase 2: policy
agent.dyn.requires_grad_(False)
trainable = [p for p in agent.parameters() if p.requires_grad]
opt_pi = torch.optim.Adam(trainable, lr=cfg["pi_lr"])
for it in range(1, cfg["pi_iters"] + 1):
    agent.train()
    s, cost = start_states(cfg["pi_batch"]), 0.0
    for _ in range(H):
        a = agent.act(s)
        cost = cost + stage_cost(s, a).mean()
        s = agent.imagine(s, a)
    opt_pi.zero_grad()
    cost.backward()
    nn.utils.clip_grad_norm_(trainable, 10.0)
    opt_pi.step()
    if it % 30 == 0:
        print(f"policy iter {it:3d} imagined cost {cost.item():.3f} real cost {real_return(agent, eval_starts):.2f}")

torch.save(agent.state_dict(), "/tmp/slider_agent.pt")
print(f"final real cost {real_return(agent, eval_starts):.2f}  model val error {model_error(agent, *va):.4f}")
