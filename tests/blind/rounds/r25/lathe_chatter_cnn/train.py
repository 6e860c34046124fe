"""Surface roughness Ra (um) of turned shafts from band spectrograms of the tool holder acceleration."""
import csv
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

FRAME, HOP, BANDS = 256, 128, 32


def compute_bands(waves):
    window = np.hanning(FRAME).astype(np.float32)
    out = []
    for s in range(0, waves.shape[1] - FRAME + 1, HOP):
        power = np.abs(np.fft.rfft(waves[:, s:s + FRAME].astype(np.float32) * window, axis=1)) ** 2
        out.append(power[:, 1:].reshape(len(waves), BANDS, -1).mean(2))
    return np.log(np.stack(out, 2) + 1e-3).astype(np.float32)


def load_bands(folder):
    raw = np.load(os.path.join(folder, "accelerometer.npz"))
    ids = raw["cut_id"]
    path = os.path.join(folder, "cache", f"bands_f{FRAME}_h{HOP}.npz")
    if os.path.exists(path):
        cache = np.load(path)
        if np.array_equal(cache["cut_id"], ids):
            print("band features read from", os.path.basename(path))
            return ids, cache["bands"]
    bands = compute_bands(raw["wave"])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    np.savez(path, cut_id=ids, bands=bands)
    return ids, bands


class Cuts(Dataset):
    def __init__(self, bands, ra, stats=None):
        mean, std = stats if stats else (bands.mean((0, 2), keepdims=True), bands.std((0, 2), keepdims=True))
        self.stats = (mean, std)
        self.x = torch.from_numpy((bands - mean) / std)
        self.y = torch.tensor(ra, dtype=torch.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class RoughnessNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv1d(BANDS, 48, 3, padding=1)
        self.c2 = nn.Conv1d(48, 48, 3, padding=1)
        self.fc1 = nn.Linear(96, 48)
        self.fc2 = nn.Linear(48, 1)

    def forward(self, x):
        x = F.relu(self.c1(x))
        x = F.relu(self.c2(x))
        x = torch.cat([x.mean(2), x.amax(2)], 1)
        return self.fc2(F.relu(self.fc1(x))).squeeze(1)


def main(folder):
    torch.manual_seed(21)
    ids, bands = load_bands(folder)
    with open(os.path.join(folder, "roughness.csv"), newline="") as f:
        table = {r["cut_id"]: (float(r["ra_um"]), r["part"]) for r in csv.DictReader(f)}
    ra = np.array([table[c][0] for c in ids])
    val = np.array([table[c][1] == "val" for c in ids])
    train_set = Cuts(bands[~val], ra[~val])
    val_set = Cuts(bands[val], ra[val], train_set.stats)
    y_mean, y_std = train_set.y.mean(), train_set.y.std()

    model = RoughnessNet()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5)
    loader = DataLoader(train_set, batch_size=32, shuffle=True)
    for epoch in range(1, 17):
        model.train()
        seen = 0.0
        for x, y in loader:
            loss = F.mse_loss(model(x), (y - y_mean) / y_std)
            opt.zero_grad()
            loss.backward()
            opt.step()
            seen += loss.item() * len(y)
        if epoch % 4 == 0:
            model.eval()
            with torch.no_grad():
                pred = torch.cat([model(x) for x, _ in DataLoader(val_set, batch_size=256)]) * y_std + y_mean
            mae = (pred - val_set.y).abs().mean().item()
            r2 = 1 - F.mse_loss(pred, val_set.y).item() / val_set.y.var(unbiased=False).item()
            print(f"epoch {epoch:2d}  train mse {seen / len(train_set):.4f}  val MAE {mae:.3f} um  R2 {r2:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
