"""Differentiable bucket model: attributes of a catchment -> parameters -> daily discharge."""
import numpy as np
import torch
from torch import nn


def hidden_truth(attr):
    k = 0.05 + 0.55 / (1 + np.exp(-2.0 * attr[:, 0]))
    cap = 20 + 60 / (1 + np.exp(-1.5 * (attr[:, 1] - 0.5 * attr[:, 2])))
    return k, cap


def route(rain, pet, k, cap):
    store = np.zeros(len(rain))
    flow = []
    for t in range(rain.shape[1]):
        store = np.maximum(store + rain[:, t] - pet[:, t], 0)
        spill = np.maximum(store - cap, 0)
        store = store - spill
        base = k * store
        store = store - base
        flow.append(spill + base)
    return np.stack(flow, 1)


def make_basins(n, days, seed):
    rng = np.random.default_rng(seed)
    attr = rng.normal(size=(n, 4))
    wet = rng.random((n, days)) < 0.35
    rain = wet * rng.gamma(1.2, 14.0, (n, days))
    season = 2.0 + 1.5 * np.sin(np.arange(days) / 365 * 2 * np.pi)
    pet = np.tile(season, (n, 1))
    flow = route(rain, pet, *hidden_truth(attr))
    flow = flow * rng.lognormal(0, 0.08, flow.shape)
    return [torch.tensor(a, dtype=torch.float32) for a in (attr, rain, pet, flow)]


class Regionaliser(nn.Module):
    """Static attributes -> (recession constant, storage capacity)."""

    def __init__(self, n_attr):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_attr, 24), nn.Tanh(), nn.Linear(24, 2))

    def forward(self, attr):
        raw = self.net(attr)
        return torch.sigmoid(raw[:, 0]), 100.0 * torch.sigmoid(raw[:, 1])


class RunoffModel(nn.Module):
    def __init__(self, n_attr):
        super().__init__()
        self.regional = Regionaliser(n_attr)
        self.correct = nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 1))

    def forward(self, attr, rain, pet):
        k, cap = self.regional(attr)
        store = torch.zeros_like(k)
        out = []
        for t in range(rain.shape[1]):
            store = torch.relu(store + rain[:, t] - pet[:, t])
            spill = torch.relu(store - cap)
            store = store - spill
            base = k * store
            store = store - base
            q = spill + base
            feats = torch.stack([q / 20, rain[:, t] / 20, pet[:, t] / 4], 1)
            out.append(q + self.correct(feats).squeeze(1))
        return torch.stack(out, 1)


def nse(sim, obs):
    num = ((sim - obs) ** 2).sum(1)
    den = ((obs - obs.mean(1, keepdim=True)) ** 2).sum(1)
    return (1 - num / den).median().item()


def main(epochs=14, batch=16, warmup=10):
    torch.manual_seed(5)
    attr, rain, pet, flow = make_basins(96, 70, seed=1)
    v_attr, v_rain, v_pet, v_flow = make_basins(32, 70, seed=2)
    model = RunoffModel(attr.shape[1])
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    spread = flow.std()
    for ep in range(epochs):
        model.train()
        losses = []
        for idx in torch.randperm(len(attr)).split(batch):
            sim = model(attr[idx], rain[idx], pet[idx])
            loss = (((sim - flow[idx]) / spread)[:, warmup:] ** 2).mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            sim = model(v_attr, v_rain, v_pet)
        print(f"epoch {ep:2d} loss {np.mean(losses):.4f} "
              f"median NSE ungauged {nse(sim[:, warmup:], v_flow[:, warmup:]):.3f}")


if __name__ == "__main__":
    main()
