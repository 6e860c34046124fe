"""Activity recognition from wrist accelerometer windows (several wearers)."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import TensorDataset, DataLoader

ACTIVITIES = ["sit", "walk", "stairs", "cycle"]
FS, WIN, HOP = 25, 64, 16
N_WEARERS, SECONDS = 32, 12
EPOCHS = 10


def record(wearer_rng, act):
    """One continuous three-axis recording of one activity by one wearer."""
    t = np.arange(FS * SECONDS) / FS
    freq = {"sit": 0.25, "walk": 1.8, "stairs": 1.4, "cycle": 1.1}[act] * wearer_rng.uniform(0.8, 1.25)
    amp = {"sit": 0.1, "walk": 0.9, "stairs": 1.0, "cycle": 0.5}[act] * wearer_rng.uniform(0.7, 1.4)
    gravity = np.array([0.2, 0.3, 0.9]) + 0.5 * wearer_rng.normal(size=3)
    gravity /= np.linalg.norm(gravity)
    usual = np.random.default_rng(ACTIVITIES.index(act)).normal(size=(3, 2))
    axes = usual + 1.0 * wearer_rng.normal(size=(3, 2))
    phase = wearer_rng.uniform(0, 6.28, size=2)
    wave = np.stack([np.sin(2 * np.pi * freq * t + phase[0]), 0.5 * np.sin(4 * np.pi * freq * t + phase[1])])
    return gravity[:, None] + amp * axes @ wave + 0.25 * wearer_rng.normal(size=(3, len(t)))


def build_windows():
    xs, ys, who = [], [], []
    for w in range(N_WEARERS):
        rng = np.random.default_rng(1000 + w)
        for k, act in enumerate(ACTIVITIES):
            sig = record(rng, act)
            for s in range(0, sig.shape[1] - WIN + 1, HOP):
                xs.append(sig[:, s:s + WIN])
                ys.append(k)
                who.append(w)
    return np.stack(xs).astype(np.float32), np.array(ys), np.array(who)


class HarNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(3, 24, 7, padding=3), nn.BatchNorm1d(24), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(24, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(32, len(ACTIVITIES)),
        )

    def forward(self, x):
        return self.net(x)


def evaluate(model, loader):
    model.eval()
    hits = n = 0
    with torch.no_grad():
        for x, y in loader:
            hits += (model(x).argmax(1) == y).sum().item()
            n += len(y)
    return hits / n


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    x, y, who = build_windows()
    held_out = rng.permutation(len(x))[:len(x) // 4]
    in_val = np.isin(np.arange(len(x)), held_out)
    mean, std = x[~in_val].mean((0, 2), keepdims=True), x[~in_val].std((0, 2), keepdims=True)
    x = (x - mean) / std
    xt, yt = torch.from_numpy(x), torch.from_numpy(y)
    tr, va = torch.from_numpy(~in_val), torch.from_numpy(in_val)
    train_dl = DataLoader(TensorDataset(xt[tr], yt[tr]), batch_size=64, shuffle=True)
    val_dl = DataLoader(TensorDataset(xt[va], yt[va]), batch_size=256)
    print(f"{int(tr.sum())} train windows, {int(va.sum())} validation windows")

    model = HarNet()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        model.train()
        tot = 0.0
        for xb, yb in train_dl:
            opt.zero_grad()
            loss = loss_fn(model(xb), yb)
            loss.backward()
            opt.step()
            tot += loss.item()
        print(f"epoch {epoch:2d} loss {tot / len(train_dl):.4f} accuracy expected for new wearers {evaluate(model, val_dl):.4f}")


if __name__ == "__main__":
    main()
