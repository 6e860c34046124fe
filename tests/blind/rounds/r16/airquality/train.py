import sys
import numpy as np
import torch
import torch.nn as nn


class Scaler:
    def fit(self, a):
        self.m, self.s = a.mean(0), a.std(0)
        return self

    def __call__(self, a):
        return torch.tensor((a - self.m) / self.s, dtype=torch.float32)


def station(folder, year):
    t = np.genfromtxt(f"{folder}/station_{year}.csv", delimiter=",", names=True)
    names = list(t.dtype.names)
    x = np.stack([t[c] for c in names[:-1]], 1)
    return x, t[names[-1]]


def train_model(x, y, epochs=20, lr=5e-3, batch=60):
    net = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))
    optim = torch.optim.Adam(net.parameters(), lr=lr)
    for ep in range(epochs):
        order = torch.randperm(len(x))
        run = 0.0
        for i in range(0, len(x), batch):
            b = order[i:i + batch]
            loss = nn.functional.huber_loss(net(x[b]).flatten(), y[b])
            optim.zero_grad()
            loss.backward()
            optim.step()
            run += loss.item() * len(b)
        if (ep + 1) % 5 == 0:
            print(f"[{ep + 1:2d}] huber {run / len(x):.4f}")
    return net


def main(folder):
    torch.manual_seed(3)
    x23, y23 = station(folder, 2023)
    x24, y24 = station(folder, 2024)
    sx = Scaler().fit(x23)
    ym, ys = y23.mean(), y23.std()
    net = train_model(sx(x23), torch.tensor((y23 - ym) / ys, dtype=torch.float32))
    with torch.no_grad():
        p = net(sx(x24)).flatten().numpy() * ys + ym
    print(f"2024 MAE {np.abs(p - y24).mean():.2f} ug/m3   R2 {1 - ((p - y24) ** 2).mean() / y24.var():.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
