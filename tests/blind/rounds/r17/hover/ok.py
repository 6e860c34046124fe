import torch
from torch import nn

torch.manual_seed(23)
DT, G, DRAG, GAIN = 0.05, 9.81, 0.15, 22.0


def physics(s, u):
    """Vertical and sideways motion of a small quadrotor; s = (x, z, vx, vz), u = (tilt, thrust) in [-1, 1]."""
    tilt, thrust = 0.5 * u[:, 0], GAIN * (u[:, 1] + 1) / 2
    v = s[:, 2:]
    ax = thrust * torch.sin(tilt) - DRAG * v[:, 0] * v[:, 0].abs()
    az = thrust * torch.cos(tilt) - G - DRAG * v[:, 1] * v[:, 1].abs()
    v_new = v + DT * torch.stack([ax, az], 1)
    return torch.cat([s[:, :2] + DT * v_new, v_new], 1)


def start(n):
    return torch.cat([torch.rand(n, 2) * 3 - 1.5, torch.rand(n, 2) * 2 - 1], 1)


class Agent(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.dynamics = nn.Sequential(nn.Linear(6, d), nn.SiLU(), nn.Linear(d, d), nn.SiLU(), nn.Linear(d, 4))
        self.policy = nn.Sequential(nn.Linear(4, d), nn.Tanh(), nn.Linear(d, 2), nn.Tanh())

    def predict(self, s, u):
        return s + self.dynamics(torch.cat([s, u], 1)) * 0.5

    def act(self, s):
        return self.policy(s)


def collect(n):
    s = torch.cat([torch.rand(n, 2) * 6 - 3, torch.rand(n, 2) * 8 - 4], 1)
    u = torch.rand(n, 2) * 2 - 1
    return s, u, physics(s, u)


def cost(s, u):
    return (s[:, :2] ** 2).sum(1) + 0.05 * (s[:, 2:] ** 2).sum(1) + 0.01 * (u ** 2).sum(1)


@torch.no_grad()
def fly(agent, n=200, steps=60):
    s, total = start(n), 0.0
    for _ in range(steps):
        u = agent.act(s)
        s = physics(s, u)
        total += cost(s, u).mean().item()
    return total / steps, s[:, :2].norm(dim=1).mean().item()


agent = Agent()

# 1. dynamics model from random flight
s, u, s_next = collect(6000)
opt_model = torch.optim.Adam(agent.dynamics.parameters(), lr=3e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt_model, 600)
for it in range(600):
    b = torch.randint(0, len(s), (256,))
    loss = (agent.predict(s[b], u[b]) - s_next[b]).pow(2).mean()
    opt_model.zero_grad()
    loss.backward()
    opt_model.step()
    sched.step()
    if it % 200 == 199:
        print(f"model step {it + 1} mse {loss.item():.6f}")

# 2. policy through imagined flights
opt_policy = torch.optim.Adam(agent.policy.parameters(), lr=3e-3)
for it in range(120):
    s = start(64)
    total = 0.0
    for _ in range(25):
        u = agent.act(s)
        s = agent.predict(s, u)
        total = total + cost(s, u).mean()
    loss = total / 25
    agent.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(agent.policy.parameters(), 5.0)
    opt_policy.step()
    if it % 20 == 19:
        print(f"policy step {it + 1} imagined cost {loss.item():.4f}")

c, d = fly(agent)
print(f"real flights: mean cost {c:.3f}, distance to target at the end {d:.3f} m")
