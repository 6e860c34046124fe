"""Light curves of eclipsing binaries: V magnitude of a star from its orbital phase, the
airmass and the seeing. Used to spot observations that do not fit the ephemeris."""
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

HARMONICS = 10
EPOCHS = 20


def load(folder):
    catalog = json.loads((folder / "catalog.json").read_text())
    data = np.load(folder / "photometry.npz")
    star = data["star"].astype(np.int64)
    period = np.array([c["period_d"] for c in catalog])[star]
    epoch = np.array([c["epoch_jd"] for c in catalog])[star]
    phase = np.mod((data["jd"].astype(np.float64) - epoch) / period, 1.0)
    sky = np.column_stack([data["airmass"], data["seeing_px"]]).astype(np.float64)
    return len(catalog), star, phase, sky, data["mag_v"].astype(np.float64)


class PhaseFeatures(nn.Module):
    def __init__(self, harmonics):
        super().__init__()
        self.register_buffer("k", 2 * torch.pi * torch.arange(1, harmonics + 1, dtype=torch.float32))

    def forward(self, phase):
        angle = phase[:, None] * self.k
        return torch.cat([angle.sin(), angle.cos()], dim=1)


class LightCurve(nn.Module):
    def __init__(self, stars, harmonics=HARMONICS, dim=16, hidden=96):
        super().__init__()
        self.star = nn.Embedding(stars, dim)
        self.phase = PhaseFeatures(harmonics)
        self.net = nn.Sequential(
            nn.Linear(2 * harmonics + dim + 2, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, 1),
        )

    def forward(self, star, phase, sky):
        return self.net(torch.cat([self.phase(phase), self.star(star), sky], dim=1))[:, 0]


def star_levels(star, mag, rows, stars):
    level = np.array([np.median(mag[rows][star[rows] == s]) for s in range(stars)])
    spread = np.std(mag[rows] - level[star[rows]])
    return level, spread


def main(folder):
    torch.manual_seed(19)
    stars, star, phase, sky, mag = load(folder)
    full = TensorDataset(torch.from_numpy(star), torch.tensor(phase, dtype=torch.float32), torch.arange(len(star)))
    train_part, val_part = random_split(full, [0.8, 0.2], generator=torch.Generator().manual_seed(1))
    rows, val_rows = np.array(train_part.indices), np.array(val_part.indices)
    level, spread = star_levels(star, mag, rows, stars)
    sky = (sky - sky[rows].mean(0)) / sky[rows].std(0)
    sky = torch.tensor(sky, dtype=torch.float32)
    goal = torch.tensor((mag - level[star]) / spread, dtype=torch.float32)

    net = LightCurve(stars)
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=1e-3)
    loader = DataLoader(train_part, batch_size=64, shuffle=True)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, epochs=EPOCHS, steps_per_epoch=len(loader))
    print(f"{stars} stars, {len(rows)} observations for training, {len(val_rows)} for validation")
    for epoch in range(1, EPOCHS + 1):
        net.train()
        total = 0.0
        for s, p, i in loader:
            loss = nn.functional.smooth_l1_loss(net(s, p, sky[i]), goal[i], beta=0.3)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item() * len(i)
        if epoch % 4 == 0:
            net.eval()
            with torch.no_grad():
                s, p, i = full[val_rows]
                rest = (net(s, p, sky[i]) - goal[i]).abs().numpy() * spread
            print(f"epoch {epoch:2d}  train {total / len(rows):.4f}  val MAE {1000 * rest.mean():.0f} mmag")
    print(f"star level only: {1000 * np.abs(mag - level[star])[val_rows].mean():.0f} mmag")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
