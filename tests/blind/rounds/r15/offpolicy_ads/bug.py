"""Learn an ad policy from logs written by an old, stubborn policy (inverse propensity scoring)."""
import numpy as np
import torch
from torch import nn

N_ADS, N_FEAT = 5, 6


class AdWorld:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.taste = self.rng.normal(size=(N_FEAT, N_ADS)) * 0.9

    def users(self, n):
        return self.rng.normal(size=(n, N_FEAT))

    def click_prob(self, u):
        return 1 / (1 + np.exp(-(u @ self.taste - 1.0)))

    def old_policy(self, u):
        """prefers the first ads whatever the user likes"""
        score = np.tile(np.array([2.5, 1.5, 0.5, 0.0, 0.0]), (len(u), 1))
        p = np.exp(score)
        return p / p.sum(1, keepdims=True)

    def logs(self, n):
        u = self.users(n)
        p = self.old_policy(u)
        ad = np.array([self.rng.choice(N_ADS, p=row) for row in p])
        click = self.rng.random(n) < self.click_prob(u)[np.arange(n), ad]
        return u, ad, p[np.arange(n), ad], click.astype(float)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(N_FEAT, 32), nn.ReLU(), nn.Linear(32, N_ADS))

    def forward(self, u):
        return torch.log_softmax(self.net(u), dim=-1)


def ips_objective(logp, ad, propensity, click, baseline):
    chosen = logp.gather(1, ad[:, None]).squeeze(1).exp()
    weight = chosen * propensity
    return (weight.clamp(max=20.0) * (click - baseline)).mean()


def learn(policy, logs, epochs=15):
    u, ad, prop, click = (torch.as_tensor(a) for a in logs)
    u, prop, click = u.float(), prop.float(), click.float()
    baseline = click.mean()
    opt = torch.optim.Adam(policy.parameters(), lr=3e-3)
    for epoch in range(epochs):
        gain = 0.0
        for idx in torch.randperm(len(u)).split(200):
            logp = policy(u[idx])
            objective = ips_objective(logp, ad[idx], prop[idx], click[idx], baseline)
            entropy = -(logp.exp() * logp).sum(1).mean()
            opt.zero_grad()
            (-(objective + 0.01 * entropy)).backward()
            opt.step()
            gain += objective.item()
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1}: objective {gain:.3f}")


def true_clicks(policy, world, n=5000):
    u = world.users(n)
    with torch.no_grad():
        p = policy(torch.as_tensor(u).float()).exp().numpy()
    return float((p * world.click_prob(u)).sum(1).mean())


if __name__ == "__main__":
    torch.manual_seed(17)
    world = AdWorld(5)
    logs = world.logs(6000)
    print("click rate in the logs", round(float(logs[3].mean()), 4))
    policy = Policy()
    learn(policy, logs)
    print(f"click rate of the learnt policy: {true_clicks(policy, world):.4f}")
