"""Vanishing bearing of homing pigeons from release site, sun, clock shift, wind and magnetic anomaly."""
import argparse

import numpy as np
import torch
import torch.nn as nn

RECORD = np.dtype([
    ("east_m", "i4"), ("north_m", "i4"), ("sun_azimuth_deg", "u2"), ("clock_shift_min", "i2"),
    ("wind_from_deg", "u2"), ("wind_dm_s", "u1"), ("anomaly_nT", "i2"), ("cloud_octas", "u1"), ("bearing_deg", "u2"),
])


def release_log(n, rng):
    """One record per bird, packed the way the receiver at the release site stores them."""
    east = rng.normal(0, 18000, n)
    north = rng.normal(0, 18000, n)
    sun = rng.uniform(90, 270, n)
    shift = rng.choice([-180, -60, 0, 0, 60, 180], n)
    wind_from = rng.uniform(0, 360, n)
    wind = rng.gamma(2.0, 1.6, n)
    anomaly = rng.normal(0, 60, n)
    cloud = rng.integers(0, 9, n)

    home = np.degrees(np.arctan2(-east, -north))
    compass = home + 0.25 * shift * (1 - cloud / 8)
    compass = compass + 12 * np.tanh(anomaly / 60) * (cloud / 8)
    blown = np.radians(compass)
    to = np.radians(wind_from + 180)
    vx = 17 * np.sin(blown) + wind * np.sin(to)
    vy = 17 * np.cos(blown) + wind * np.cos(to)
    bearing = np.degrees(np.arctan2(vx, vy)) + 6 * rng.normal(size=n)

    log = np.empty(n, RECORD)
    log["east_m"], log["north_m"] = np.rint(east).astype(int), np.rint(north).astype(int)
    log["sun_azimuth_deg"] = np.rint(sun).astype(int)
    log["clock_shift_min"] = shift
    log["wind_from_deg"] = np.rint(wind_from).astype(int) % 360
    log["wind_dm_s"] = np.rint(10 * wind).astype(int).clip(0, 250)
    log["anomaly_nT"] = np.rint(anomaly).astype(int)
    log["cloud_octas"] = cloud
    log["bearing_deg"] = np.rint(bearing).astype(int) % 360
    return log


def circle(degrees):
    angle = np.radians(degrees.astype(np.float64))
    return [np.sin(angle), np.cos(angle)]


def features(log):
    east, north = log["east_m"] / 1000.0, log["north_m"] / 1000.0
    distance = np.hypot(east, north) + 1e-6
    wind = log["wind_dm_s"] / 10.0
    wind_sin, wind_cos = circle(log["wind_from_deg"])
    columns = [east / distance, north / distance, distance / 20, *circle(log["sun_azimuth_deg"]), log["clock_shift_min"] / 100.0,
               wind * wind_sin / 3, wind * wind_cos / 3, log["anomaly_nT"] / 60.0, log["cloud_octas"] / 4.0 - 1]
    return torch.tensor(np.stack(columns, 1), dtype=torch.float32)


def targets(log):
    return torch.tensor(np.stack(circle(log["bearing_deg"]), 1), dtype=torch.float32)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, x):
        return x + self.body(x)


class BearingNet(nn.Module):
    def __init__(self, inputs, width, blocks):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(inputs, width), *[Block(width) for _ in range(blocks)], nn.LayerNorm(width), nn.Linear(width, 2))

    def forward(self, x):
        return self.net(x)


def angular_error(out, y):
    cosine = (out * y).sum(1) / out.norm(dim=1).clamp_min(1e-6)
    return torch.rad2deg(torch.acos(cosine.clamp(-1, 1)))


def main(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("--birds", type=int, default=4000)
    p.add_argument("--epochs", type=int, default=16)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--width", type=int, default=48)
    p.add_argument("--seed", type=int, default=4)
    args = p.parse_args(argv)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)

    log = release_log(args.birds, rng)
    x, y = features(log), targets(log)
    cut = int(0.8 * len(x))
    x_val, y_val = x[cut:], y[cut:]
    model = BearingNet(x.shape[1], args.width, 2)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    for epoch in range(1, args.epochs + 1):
        model.train()
        losses = []
        for batch in torch.randperm(cut).split(args.batch):
            loss = (model(x[batch]) - y[batch]).pow(2).sum(1).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step()
        if epoch % 4 == 0:
            model.eval()
            with torch.no_grad():
                error = angular_error(model(x_val), y_val)
            print(f"epoch {epoch:2d}  loss {np.mean(losses):.4f}  val error mean {error.mean():.1f} deg, median {error.median():.1f} deg")
    return model


if __name__ == "__main__":
    main()
