import csv
import json
from pathlib import Path

import numpy as np
import torch
from torch import nn

COLUMNS = ["v_inf", "entry_angle", "begin_height", "peak_mag", "duration", "decel", "flare_index", "color_ratio", "trail_len", "sky_noise"]


def meteors(n, rng):
    kind = rng.choice(3, n, p=[0.4, 0.35, 0.25])           # cometary, stony, iron
    v = np.clip(np.where(kind == 0, rng.normal(48, 12, n), rng.normal(24, 8, n)), 12, 71)
    angle = np.degrees(np.arcsin(np.sqrt(rng.random(n) * 0.95 + 0.03)))
    logm = rng.normal(-1.0, 0.7, n)
    strength = np.array([0.0, 1.0, 1.6])[kind] + rng.normal(0, 0.25, n)
    begin = 78 + 0.55 * v - 6.0 * strength + rng.normal(0, 1.5, n)
    mag = 2.0 - 2.2 * (logm + 1) - 6.5 * np.log10(v / 30) + rng.normal(0, 0.3, n)
    dur = np.exp(0.3 + 0.28 * logm - 0.9 * np.log(v / 30) - 0.4 * np.log(np.sin(np.radians(angle)) + 0.1) + 0.12 * strength + rng.normal(0, 0.1, n))
    decel = np.exp(0.6 - 0.5 * logm + 0.7 * np.log(v / 30) - 0.5 * strength + rng.normal(0, 0.15, n))
    flare = np.exp(rng.normal(0, 0.4, n) - 0.6 * strength + 0.02 * (v - 30))
    color = 0.9 + 0.18 * (kind == 2) - 0.10 * (kind == 0) + 0.004 * (v - 30) + rng.normal(0, 0.05, n)
    trail = v * dur * np.exp(rng.normal(0, 0.06, n))
    noise = rng.gamma(4.0, 2.0, n)
    x = np.stack([v, angle, begin, mag, dur, decel, flare, color, trail, noise], 1)
    y = logm + 0.35 * strength + rng.normal(0, 0.08, n)
    return x, y


def pretrain(rng):
    """Regression of mass, deceleration and end height on the catalogue of the whole network of cameras."""
    x, y = meteors(12000, rng)
    mean, std = x.mean(0), x.std(0)
    z = torch.from_numpy(((x - mean) / std).astype(np.float32))
    goal = np.stack([y, np.log(x[:, 5]), x[:, 2] - 0.5 * x[:, 8]], 1)
    goal = torch.from_numpy(((goal - goal.mean(0)) / goal.std(0)).astype(np.float32))
    enc = nn.Sequential(nn.Linear(10, 48), nn.SiLU(), nn.Linear(48, 5), nn.Tanh())
    dec = nn.Linear(5, 3)
    opt = torch.optim.AdamW([*enc.parameters(), *dec.parameters()], lr=2e-3, weight_decay=1e-3)
    for _ in range(1500):
        i = torch.randint(0, len(z), (128,))
        loss = ((dec(enc(z[i])) - goal[i]) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return enc.state_dict(), mean, std


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    rng = np.random.default_rng(1833)
    state, mean, std = pretrain(rng)
    x, y = meteors(1100, rng)
    order = rng.permutation(10)                            # the station writes its columns in another order
    mean_of = {c: round(float(m), 6) for c, m in zip(COLUMNS, mean)}
    std_of = {c: round(float(s), 6) for c, s in zip(COLUMNS, std)}
    here = Path(__file__).resolve().parent
    for side in ("bug", "ok"):
        out = here / side
        out.mkdir(exist_ok=True)
        with open(out / "station.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["event"] + [COLUMNS[j] for j in order] + ["log_mass"])
            for i in range(len(x)):
                w.writerow([f"E{i:05d}"] + [f"{x[i, j]:.4f}" for j in order] + [f"{y[i]:.4f}"])
        torch.save(state, out / "encoder.pt")
        names = sorted(COLUMNS) if side == "bug" else COLUMNS
        table = [{"name": c, "mean": mean_of[c], "std": std_of[c]} for c in names]
        (out / "encoder_inputs.json").write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
