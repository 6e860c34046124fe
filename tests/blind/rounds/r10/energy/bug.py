"""Seq2point energy disaggregation: fridge, heater, oven and kettle mix -> kettle power."""
import numpy as np
import torch
from torch import nn


def square_wave(rng, n, on, off, power):
    out = np.zeros(n)
    t = int(rng.integers(0, off))
    while t < n:
        d = int(rng.normal(on, on * 0.15))
        out[t:t + max(d, 2)] = power * rng.normal(1, 0.05)
        t += max(d, 2) + int(rng.exponential(off)) + 5
    return out


def simulate_house(rng, n):
    fridge = square_wave(rng, n, 40, 60, 0.12)
    heater = square_wave(rng, n, 90, 150, 1.1)
    kettle = square_wave(rng, n, 10, 50, 2.0)
    oven = square_wave(rng, n, 25, 120, 1.8)
    base = 0.15 + 0.05 * np.sin(np.arange(n) / 500.0)
    mains = fridge + heater + kettle + oven + base + rng.normal(0, 0.15, n)
    return mains.astype(np.float32), kettle.astype(np.float32)


def windows(mains, appliance, window=61, stride=4):
    x, y = [], []
    starts = range(0, len(mains) - window, stride)
    for i, s in enumerate(starts):
        x.append(mains[s:s + window])
        y.append(appliance[i + window // 2])
    return np.stack(x), np.asarray(y, dtype=np.float32)


class Seq2Point(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(1, 16, 7, padding=3), nn.ReLU(),
            nn.Conv1d(16, 24, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv1d(24, 32, 5, stride=2, padding=2), nn.ReLU(),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(32 * 16, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.head(self.body(x.unsqueeze(1))).squeeze(1)


def batches(x, y, size, rng=None):
    order = np.arange(len(x)) if rng is None else rng.permutation(len(x))
    for i in range(0, len(order), size):
        idx = order[i:i + size]
        yield torch.from_numpy(x[idx]), torch.from_numpy(y[idx])


def evaluate(model, x, y, scale):
    model.eval()
    preds = []
    with torch.no_grad():
        for xb, _ in batches(x, y, 512):
            preds.append(model(xb).numpy())
    p = np.concatenate(preds) * scale
    t = y * scale
    mae = np.abs(p - t).mean()
    on_p, on_t = p > 1.0, t > 1.0
    tp = (on_p & on_t).sum()
    f1 = 2 * tp / max(on_p.sum() + on_t.sum(), 1)
    return mae, f1


def main():
    torch.set_num_threads(1)
    torch.manual_seed(7)
    rng = np.random.default_rng(7)
    train_parts = [windows(*simulate_house(rng, 8000)) for _ in range(3)]
    x_tr = np.concatenate([p[0] for p in train_parts])
    y_tr = np.concatenate([p[1] for p in train_parts])
    x_va, y_va = windows(*simulate_house(rng, 8000))

    mu, sd = x_tr.mean(), x_tr.std()
    scale = float(y_tr.std())
    x_tr, x_va = (x_tr - mu) / sd, (x_va - mu) / sd
    y_tr, y_va = y_tr / scale, y_va / scale
    print(f"{len(x_tr)} training windows, {len(x_va)} validation windows")

    model = Seq2Point()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    accumulate = 2
    for epoch in range(6):
        model.train()
        chunks = list(batches(x_tr, y_tr, 32, rng))
        total = 0.0
        for start in range(0, len(chunks), accumulate):
            group = chunks[start:start + accumulate]
            count = sum(len(yb) for _, yb in group)
            opt.zero_grad()
            for xb, yb in group:
                loss = ((model(xb) - yb) ** 2).sum() / count
                loss.backward()
                total += loss.item() * count
            opt.step()
        mae, f1 = evaluate(model, x_va, y_va, scale)
        print(f"epoch {epoch + 1:2d}  mse {total / len(x_tr):.4f}  val MAE {mae:.4f} kW  on/off F1 {f1:.4f}")


if __name__ == "__main__":
    main()
