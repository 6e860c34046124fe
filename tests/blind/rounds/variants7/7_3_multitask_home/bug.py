"""One network for three questions about a listing: price, days on market, renovation need."""
import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

TASKS = {"log_price": "regression", "log_days": "regression", "needs_work": "binary"}
WEIGHTS = {"log_price": 1.0, "log_days": 0.7, "needs_work": 1.0}
INPUTS = ["area", "rooms", "age", "centre_km", "energy", "floor", "garden", "season"]


def listings(n=3000, seed=41):
    rng = np.random.default_rng(seed)
    area = rng.lognormal(4.4, 0.35, n)
    rooms = np.clip(np.round(area / 26 + rng.normal(0, 0.6, n)), 1, 8)
    age = rng.gamma(2, 22, n)
    centre = rng.gamma(2, 3, n)
    energy = 60 + 1.6 * age + rng.normal(0, 35, n)
    floor = rng.integers(0, 6, n)
    garden = (rng.random(n) < 0.15 + 0.03 * centre.clip(0, 15)).astype(float)
    season = rng.uniform(-1, 1, n)
    price = np.log(area) + 0.9 - 0.06 * centre - 0.003 * age + 0.15 * garden + rng.normal(0, 0.12, n)
    days = 3.2 + 0.9 * (price - price.mean()) + 0.05 * centre + 0.3 * season + rng.normal(0, 0.25, n)
    work = 0.03 * (age - 45) + 0.02 * (energy - 130) + rng.logistic(0, 0.5, n)
    return pd.DataFrame({"area": np.log(area), "rooms": rooms, "age": age, "centre_km": centre, "energy": energy,
                         "floor": floor, "garden": garden, "season": season,
                         "log_price": price, "log_days": days, "needs_work": (work > 0).astype(float)})


class Listings(Dataset):
    def __init__(self, frame):
        self.x = torch.tensor(frame[INPUTS].to_numpy(), dtype=torch.float32)
        self.y = {t: torch.tensor(frame[t].to_numpy(), dtype=torch.float32) for t in TASKS}

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], {t: v[i] for t, v in self.y.items()}


class ListingNet(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(len(INPUTS), width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.heads = nn.ModuleDict({t: nn.Linear(width, 1) for t in TASKS})

    def forward(self, x):
        h = self.trunk(x)
        return {t: head(h).squeeze(1) for t, head in self.heads.items()}


def task_loss(task, pred, target):
    if TASKS[task] == "binary":
        return nn.functional.binary_cross_entropy_with_logits(pred, target)
    return nn.functional.mse_loss(pred, target)


def combined_loss(preds, targets):
    total = torch.zeros(())
    for task, weight in WEIGHTS.items():
        total =+ weight * task_loss(task, preds[task], targets[task])
    return total


def task_scores(model, data):
    model.eval()
    with torch.no_grad():
        preds = model(data.x)
    scores = {}
    for t, kind in TASKS.items():
        if kind == "binary":
            scores[t] = ((preds[t] > 0) == (data.y[t] > 0.5)).float().mean().item()
        else:
            scores[t] = 1 - ((preds[t] - data.y[t]) ** 2).mean().item() / data.y[t].var().item()
    return scores


def main():
    torch.manual_seed(41)
    df = listings()
    train, test = df[:2200].copy(), df[2200:].copy()
    scaled = INPUTS + ["log_price", "log_days"]
    mu, sd = train[scaled].mean(), train[scaled].std()
    for part in (train, test):
        part[scaled] = (part[scaled] - mu) / sd
    loader = DataLoader(Listings(train), batch_size=64, shuffle=True)
    model = ListingNet()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(8):
        model.train()
        total = 0.0
        for x, targets in loader:
            loss = combined_loss(model(x), targets)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.4f}")
    scores = task_scores(model, Listings(test))
    print({t: round(v, 3) for t, v in scores.items()})
    print(f"mean_score={np.mean(list(scores.values())):.4f}")


if __name__ == "__main__":
    main()
