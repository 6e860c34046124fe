import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)
HORIZON, ROUNDS, BATCH, LR = 60, 6, 64, 2e-3


class Road:
    """lateral offset, heading error and road curvature; the action is the steering angle"""

    def __init__(self, n, seed, spread):
        self.g = torch.Generator().manual_seed(seed)
        self.offset = spread * torch.randn(n, generator=self.g)
        self.heading = 0.3 * spread * torch.randn(n, generator=self.g)
        self.curv = torch.zeros(n)

    def obs(self):
        return torch.stack([self.offset, self.heading, 10 * self.curv], 1)

    def step(self, steer):
        self.curv = 0.9 * self.curv + 0.01 * torch.randn(len(self.curv), generator=self.g)
        self.heading = self.heading + 0.2 * steer.clamp(-1, 1) - self.curv
        self.offset = self.offset + 0.4 * torch.sin(self.heading)
        return self.offset.abs()


def expert(obs):
    offset, heading, curv = obs.T
    wanted = -torch.atan(0.8 * offset)
    return (2.0 * (wanted - heading) + 0.5 * curv).clamp(-1, 1)


class Pilot(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, obs):
        return self.net(obs).squeeze(-1)


def fit(pilot, obs, act, steps):
    loader = DataLoader(TensorDataset(obs, act), batch_size=BATCH, shuffle=True)
    optimizer = torch.optim.Adam(pilot.parameters(), lr=LR)
    pilot.train()
    done = 0
    while done < steps:
        for o, a in loader:
            loss = nn.functional.mse_loss(pilot(o), a)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
            if done == steps:
                break
    return loss.item()


@torch.no_grad()
def drive(controller, road):
    seen, acts, error = [], [], 0.0
    for _ in range(HORIZON):
        obs = road.obs()
        steer = controller(obs)
        seen.append(obs)
        acts.append(steer)
        error += road.step(steer).mean().item()
    return torch.cat(seen), torch.cat(acts), error / HORIZON


@torch.no_grad()
def evaluate(pilot):
    pilot.eval()
    return drive(pilot, Road(200, seed=4242, spread=2.5))[2]


pilot = Pilot()
data_obs, data_act, _ = drive(expert, Road(8, seed=1, spread=0.1))
loss = fit(pilot, data_obs, data_act, 150)
print(f"behaviour cloning: loss {loss:.5f}, mean |offset| {evaluate(pilot):.3f}")
for r in range(1, ROUNDS + 1):
    pilot.eval()
    obs, steer, _ = drive(pilot, Road(16, seed=100 + r, spread=2.0))
    data_obs = torch.cat([data_obs, obs])
    data_act = torch.cat([data_act, steer])
    loss = fit(pilot, data_obs, data_act, 150)
    print(f"round {r}: {len(data_obs)} states, loss {loss:.5f}, mean |offset| {evaluate(pilot):.3f}")
_, _, best = drive(expert, Road(200, seed=4242, spread=2.5))
print(f"final mean |offset| {evaluate(pilot):.3f} (expert {best:.3f})")
