import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(121)
BATCH, TIME = 64, 12


class Dock:
    """A cart on a line shall come to rest at the goal."""
    def reset(self, n):
        self.place, self.speed = 2 * torch.randn(n), torch.zeros(n)
        return self.view()

    def view(self):
        return torch.stack([self.place, self.speed], dim=1)

    def step(self, push):
        self.speed = 0.7 * self.speed + 0.5 * push.clamp(-2, 2)
        self.place = self.place + self.speed
        reward = -(self.place.abs() + 0.1 * push.abs()).clamp(max=5.0)
        return self.view(), reward


class Pilot(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
        self.log_std = nn.Parameter(torch.tensor(-0.3))

    def law(self, view):
        return Normal(self.mean(view).squeeze(1), self.log_std.clamp(-2, 0.5).exp())

    def pick(self, view):
        return self.law(view).sample()

    def log_chance(self, view, push):
        return self.law(view).log_prob(push)


def fly(pilot, dock):
    view, chances, rewards = dock.reset(BATCH), [], []
    for _ in range(TIME):
        push = pilot.pick(view)
        chances.append(pilot.log_chance(view, push))
        view, reward = dock.step(push)
        rewards.append(reward)
    return torch.stack(chances), torch.stack(rewards)


def to_go(rewards, gamma=0.9):
    out, running = [], torch.zeros(rewards.size(1))
    for reward in rewards.flip(0):
        running = reward + gamma * running
        out.append(running)
    return torch.stack(out[::-1])


@torch.no_grad()
def exam(pilot):
    generator_state = torch.get_rng_state()
    torch.manual_seed(5)
    pilot.eval()
    dock, total = Dock(), 0.0
    view = dock.reset(500)
    for _ in range(TIME):
        view, reward = dock.step(pilot.law(view).mean)
        total += reward.mean().item()
    pilot.train()
    torch.set_rng_state(generator_state)
    return total


pilot, dock = Pilot(), Dock()
opt = torch.optim.Adam(pilot.parameters(), lr=1e-2)
print(f"before: return {exam(pilot):.2f}")
for update in range(1, 201):
    chances, rewards = fly(pilot, dock)
    gain = to_go(rewards)
    gain = (gain - gain.mean(dim=1, keepdim=True)) / (gain.std() + 1e-6)
    loss = -(chances * gain).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if update % 40 == 0:
        print(f"update {update} sampled return {rewards.sum(0).mean().item():.2f} exam return {exam(pilot):.2f}")
