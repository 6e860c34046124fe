"""Time to failure of pumps under right censoring: Weibull AFT network, trained over depots."""
import math
import tomllib

import numpy as np
import pandas as pd
import torch
import torch.nn as nn


class WeibullNet(nn.Module):
    """log-scale per pump, one shared shape."""

    def __init__(self, n_in, hidden, start_log_time):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, hidden), nn.Tanh(),
                                 nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        nn.init.constant_(self.net[-1].bias, start_log_time)
        self.log_shape = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return self.net(x).squeeze(1), self.log_shape.exp()


def weibull_nll(log_scale, shape, time, failed):
    """Failures add the log density, running pumps the log survival."""
    z = shape * (time.log() - log_scale)
    return (torch.exp(z) - failed * (shape.log() + z - time.log())).mean()


def concordance(risk, time, failed):
    good = pairs = 0.0
    for i in np.flatnonzero(failed):
        later = time > time[i]
        pairs += later.sum()
        good += (risk[i] > risk[later]).sum()
    return good / max(pairs, 1)


def median_life(log_scale, shape):
    return torch.exp(log_scale) * math.log(2) ** (1 / shape)


class Frame:
    def __init__(self, path, cfg, stats=None):
        table = pd.concat([pd.read_csv(p) for p in path], ignore_index=True)
        x = table[cfg["columns"]["inputs"]].to_numpy(np.float32)
        kinds = table[cfg["columns"]["model"]].to_numpy()
        self.stats = stats or (x.mean(0), x.std(0), sorted(set(kinds)))
        mean, std, names = self.stats
        hot = (kinds[:, None] == np.array(names)[None]).astype(np.float32)
        self.x = torch.from_numpy(np.concatenate([(x - mean) / std, hot], axis=1))
        self.time = torch.tensor(table[cfg["columns"]["time"]].to_numpy(np.float32))
        self.failed = torch.tensor(table[cfg["columns"]["status"]].to_numpy(np.float32))

    def __len__(self):
        return len(self.time)


@torch.no_grad()
def validate(model, data):
    model.eval()
    log_scale, shape = model(data.x)
    nll = weibull_nll(log_scale, shape, data.time, data.failed).item()
    c = concordance(-log_scale.numpy(), data.time.numpy(), data.failed.numpy())
    return nll, c, median_life(log_scale, shape).median().item()


def main():
    with open("pumps.toml", "rb") as f:
        cfg = tomllib.load(f)
    torch.manual_seed(cfg["train"]["seed"])
    train = Frame(cfg["files"]["train"], cfg)
    valid = Frame(cfg["files"]["valid"], cfg, train.stats)
    print(f"{len(train)} pumps, status mean {train.failed.mean():.2f}; {len(valid)} validation pumps")

    model = WeibullNet(train.x.shape[1], cfg["train"]["hidden"], train.time.log().mean().item())
    opt = torch.optim.Adam(model.parameters(), lr=cfg["train"]["lr"])
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, cfg["train"]["decay"])
    for epoch in range(1, cfg["train"]["epochs"] + 1):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(train)).split(cfg["train"]["batch"]):
            opt.zero_grad()
            log_scale, shape = model(train.x[idx])
            loss = weibull_nll(log_scale, shape, train.time[idx], train.failed[idx])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.item() * len(idx)
        sched.step()
        if epoch % 3 == 0 or epoch == 1:
            nll, c, life = validate(model, valid)
            print(f"epoch {epoch:2d}  train nll {total / len(train):.4f}  val nll {nll:.4f}  "
                  f"val c-index {c:.4f}  median predicted life {life:.0f} h")
    print(f"shape {model.log_shape.exp().item():.2f}")


if __name__ == "__main__":
    main()
