import numpy as np
import pandas as pd
import torch
import torch.nn as nn


def churn_table(n, seed):
    rng = np.random.default_rng(seed)
    segment = rng.integers(0, 3, n)
    usage = np.array([2.0, 0.0, -2.0])[segment] + rng.normal(0, 0.8, n)
    calls = np.array([0.0, 1.8, 0.3])[segment] + 0.3 * usage + rng.normal(0, 0.7, n)
    df = pd.DataFrame({
        "minutes": 200 + 60 * usage, "service_calls": np.exp(0.3 * calls), "tenure": rng.gamma(3, 8, n),
        "bill": 30 + 5 * usage - 4 * calls + rng.normal(0, 2, n), "data_gb": np.exp(0.5 * usage + rng.normal(0, 0.2, n)),
    })
    df["segment"] = segment
    return df


class SegmentNet(nn.Module):
    def __init__(self, d, hidden=32, k=3):
        super().__init__()
        self.seq = nn.Sequential(nn.Linear(d, hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden, hidden),
                                 nn.ReLU(), nn.Linear(hidden, k))

    def forward(self, x):
        return self.seq(x)


class SelfTrainer:
    def __init__(self, x_l, y_l, x_u, threshold=0.9):
        self.x_l, self.y_l, self.x_u = x_l, y_l, x_u
        self.threshold = threshold
        self.model = SegmentNet(x_l.shape[1])

    def pseudo_label(self):
        self.model.eval()
        with torch.no_grad():
            prob = self.model(self.x_u).softmax(dim=1)
        conf, label = prob.max(dim=1)
        keep = conf > self.threshold
        return self.x_u[keep], label[keep]

    def fit(self, x, y, epochs, lr):
        self.model = SegmentNet(x.shape[1])
        opt = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.model.train()
        for _ in range(epochs):
            for idx in torch.randperm(len(x)).split(64):
                loss = nn.functional.cross_entropy(self.model(x[idx]), y[idx])
                opt.zero_grad()
                loss.backward()
                opt.step()
        return loss.item()

    def run(self, rounds):
        loss = self.fit(self.x_l, self.y_l, 60, 5e-3)
        print(f"supervised start: loss {loss:.4f}")
        for r in range(rounds):
            xp, yp = self.pseudo_label()
            x, y = torch.cat([self.x_l, xp]), torch.cat([self.y_l, yp])
            loss = self.fit(x, y, 12, 2e-3)
            print(f"round {r} added {len(yp)} rows loss {loss:.4f}")
        return self.model


def main():
    torch.manual_seed(40)
    df = churn_table(5000, 40)
    cols = [c for c in df.columns if c != "segment"]
    pool, test = df.iloc[:4000], df.iloc[4000:]
    mean, std = pool[cols].mean(), pool[cols].std()
    tensor = lambda part: torch.tensor(((part[cols] - mean) / std).to_numpy(), dtype=torch.float32)
    x_pool, y_pool = tensor(pool), torch.tensor(pool["segment"].to_numpy())
    trainer = SelfTrainer(x_pool[:90], y_pool[:90], x_pool[90:])
    model = trainer.run(rounds=1).eval()
    with torch.no_grad():
        pred = model(tensor(test)).argmax(1).numpy()
    print(f"test accuracy: {(pred == test['segment'].to_numpy()).mean():.4f}")


if __name__ == "__main__":
    main()
