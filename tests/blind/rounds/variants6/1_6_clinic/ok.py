"""Off-policy evaluation of a dosing policy from logged two-step-and-longer treatments (fitted by weighted TD)."""
import numpy as np
import pandas as pd
import torch
from torch import nn

GAMMA, HORIZON = 0.9, 12


def clinician(x):
    logits = np.stack([0.6 - 0.3 * x[:, 0], 0.2 + 0 * x[:, 0], 0.8 * x[:, 0] - 0.5], 1)
    e = np.exp(logits)
    return e / e.sum(1, keepdims=True)


def protocol(x):
    logits = np.stack([0.3 - 1.8 * x[:, 0], 0.6 - 0.4 * x[:, 1], 1.6 * x[:, 0] + 0.5 * x[:, 1]], 1)
    e = np.exp(logits)
    return e / e.sum(1, keepdims=True)


def draw(p, rng):
    return (rng.random((len(p), 1)) > p.cumsum(1)).sum(1).clip(0, 2)


def transition(x, a, rng):
    severity, toxicity = x[:, 0], x[:, 1]
    effect = np.array([0.15, -0.1, -0.55])[a]
    s2 = 0.8 * severity + effect + rng.normal(0, 0.2, len(x))
    t2 = 0.7 * toxicity + np.array([-0.1, 0.05, 0.5])[a] + rng.normal(0, 0.15, len(x))
    reward = -np.abs(s2) - 0.5 * np.maximum(t2, 0) + 1.0
    return np.stack([s2, t2], 1), reward


def rollout(policy, n, rng, keep=True):
    x = rng.normal([0.8, 0.0], [0.6, 0.3], (n, 2))
    frames, ret = [], np.zeros(n)
    for t in range(HORIZON):
        p = policy(x)
        a = draw(p, rng)
        x2, r = transition(x, a, rng)
        ret += GAMMA ** t * r
        if keep:
            frames.append(pd.DataFrame(dict(sev=x[:, 0], tox=x[:, 1], action=a, reward=r, sev2=x2[:, 0],
                                            tox2=x2[:, 1], behaviour_p=p[np.arange(n), a], left=HORIZON - t)))
        x = x2
    return (pd.concat(frames, ignore_index=True) if keep else None), ret


class Critic(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, hidden), nn.Linear(hidden, hidden)])
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)[:, 0]


def to_input(df, cols, left):
    return torch.tensor(np.column_stack([df[c] for c in cols] + [left / HORIZON]), dtype=torch.float32)


def fit(df, epochs=16, batch=256):
    x = to_input(df, ["sev", "tox"], df["left"])
    x2 = to_input(df, ["sev2", "tox2"], df["left"] - 1)
    more = torch.tensor((df["left"] > 1).to_numpy(), dtype=torch.float32)
    target_p = protocol(df[["sev", "tox"]].to_numpy())[np.arange(len(df)), df["action"].to_numpy()]
    rho = torch.tensor(target_p / df["behaviour_p"].to_numpy(), dtype=torch.float32)
    rho = rho.clamp(max=10.0)
    r = torch.tensor(df["reward"].to_numpy(), dtype=torch.float32)
    critic, frozen = Critic(), Critic()
    opt = torch.optim.Adam(critic.parameters(), lr=2e-3)
    for epoch in range(epochs):
        frozen.load_state_dict(critic.state_dict())
        total = 0.0
        for idx in torch.randperm(len(df)).split(batch):
            with torch.no_grad():
                y = r[idx] + GAMMA * more[idx] * frozen(x2[idx])
            loss = (rho[idx] * (critic(x[idx]) - y) ** 2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        if epoch % 4 == 0:
            print(f"epoch {epoch:2d} weighted td loss {total / len(df):.4f}")
    return critic


if __name__ == "__main__":
    torch.manual_seed(11)
    rng = np.random.default_rng(11)
    log, logged_return = rollout(clinician, 2500, rng)
    critic = fit(log)
    starts = log[log["left"] == HORIZON]
    with torch.no_grad():
        estimate = critic(to_input(starts, ["sev", "tox"], starts["left"])).mean().item()
    _, truth = rollout(protocol, 20000, np.random.default_rng(5), keep=False)
    print(f"logged {logged_return.mean():.3f} estimated {estimate:.3f} simulated {truth.mean():.3f}")
    print(f"absolute error of the estimate: {abs(estimate - truth.mean()):.3f}")
