"""Predict the river stage at the lower gauge from yesterday's weather and the upper gauge."""
import sys
import numpy as np
import torch

FEATURES = ["rain_mm", "temp_c", "humidity", "rain_prev", "stage_up"]


def load_table(path):
    raw = np.genfromtxt(path, delimiter=",", names=True)
    X = np.stack([raw[c] for c in FEATURES], axis=1)
    return X, raw["stage"]


class Scaler:
    """column means fill the gaps, then everything goes to zero mean and unit spread"""

    def fit(self, X):
        self.mean = np.nanmean(X, axis=0)
        self.std = np.nanstd(X, axis=0)
        return self

    def __call__(self, X):
        filled = np.where(np.isnan(X), self.mean, X)
        return torch.tensor((filled - self.mean) / self.std, dtype=torch.float32)


def regression_net(n_in):
    return torch.nn.Sequential(torch.nn.Linear(n_in, 24), torch.nn.ReLU(), torch.nn.Linear(24, 1))


def train(net, X, y, epochs, lr):
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    for epoch in range(epochs):
        perm = torch.randperm(X.shape[0])
        epoch_loss = 0.0
        for k in range(0, len(perm), 45):
            sel = perm[k:k + 45]
            loss = torch.nn.functional.smooth_l1_loss(net(X[sel]).squeeze(-1), y[sel])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            epoch_loss += loss.item() * len(sel)
        if (epoch + 1) % 10 == 0:
            print(f"epoch {epoch + 1:3d}: {epoch_loss / len(X):.4f}")
    return net


def main():
    where = sys.argv[1]
    torch.manual_seed(5)
    Xtr, ytr = load_table(f"{where}/gauge_train.csv")
    Xte, yte = load_table(f"{where}/gauge_test.csv")
    scaler = Scaler().fit(Xtr)
    net = train(regression_net(Xtr.shape[1]), scaler(Xtr), torch.tensor(ytr, dtype=torch.float32), 40, 5e-3)
    with torch.no_grad():
        guess = net(scaler(Xte)).squeeze(-1).numpy()
    r2 = 1 - ((guess - yte) ** 2).sum() / ((yte - yte.mean()) ** 2).sum()
    print(f"rows {len(ytr)} / {len(yte)}")
    print(f"R2 on the test period: {r2:.4f}")


if __name__ == "__main__":
    main()
