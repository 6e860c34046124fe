"""Controller for a pumped storage basin: every hour pump, rest or generate.

usage: python train.py DIR     (DIR holds settings.json and the spot prices)
"""
import copy
import json
import sys

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
PUMP, REST, GENERATE = 0, 1, 2


class Basin:
    """Transitions of the basin; the level counts full hours of turbine operation."""

    def __init__(self, spot, levels, efficiency, mw):
        self.spot = torch.from_numpy(spot)
        self.levels, self.eff, self.mw = levels, efficiency, mw
        padded = torch.cat([self.spot[:1].expand(23), self.spot])
        self.day_mean = padded.unfold(0, 24, 1).mean(1)

    def observe(self, t, level):
        hour = 2 * np.pi * (t % 24).float() / 24
        dow = 2 * np.pi * (t % 168).float() / 168
        p = self.spot[t]
        return torch.stack([
            hour.sin(), hour.cos(), (2 * hour).sin(), (2 * hour).cos(), dow.sin(), dow.cos(),
            (p - 60) / 25, (p - self.day_mean[t]) / 20, 2 * level.float() / self.levels - 1,
        ], dim=1)

    def step(self, t, level, action):
        """Income of the hour in EUR and the level afterwards."""
        can_pump = (action == PUMP) & (level < self.levels)
        can_gen = (action == GENERATE) & (level > 0)
        euro = self.mw * self.spot[t] * (can_gen.float() * self.eff - can_pump.float())
        return euro, level + can_pump.long() - can_gen.long()


def make_net(hidden):
    return nn.Sequential(nn.Linear(9, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 3))


@torch.no_grad()
def weekly_income(net, basin):
    """Greedy operation from a half full basin, one run per week, all weeks side by side."""
    weeks = len(basin.spot) // 168
    start = torch.arange(weeks) * 168
    level = torch.full((weeks,), basin.levels // 2)
    total = torch.zeros(weeks)
    for h in range(168):
        t = start + h
        action = net(basin.observe(t, level)).argmax(1)
        euro, level = basin.step(t, level, action)
        total += euro
    return total.mean().item()


def main(folder):
    cfg = json.load(open(f"{folder}/settings.json"))
    torch.manual_seed(cfg["seed"])
    geometry = (cfg["levels"], cfg["efficiency"], cfg["mw"])
    train = Basin(np.load(f"{folder}/spot_train.npy"), *geometry)
    valid = Basin(np.load(f"{folder}/spot_valid.npy"), *geometry)
    reward_scale = 1.0 / (cfg["mw"] * float(train.spot.mean()))

    net = make_net(cfg["hidden"])
    target = copy.deepcopy(net)
    opt = torch.optim.Adam(net.parameters(), lr=cfg["lr"])
    anneal = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg["updates"], eta_min=cfg["lr"] / 20)
    running = 0.0
    for update in range(1, cfg["updates"] + 1):
        t = torch.randint(0, len(train.spot) - 1, (cfg["batch"],))
        level = torch.randint(0, cfg["levels"] + 1, (cfg["batch"],))
        q = net(train.observe(t, level))
        with torch.no_grad():
            action = torch.tensor([PUMP, REST, GENERATE]).repeat(cfg["batch"])
            t3 = t.repeat_interleave(3)
            euro, after = train.step(t3, level.repeat_interleave(3), action)
            value = target(train.observe(t3 + 1, after)).amax(1)
            goal = (reward_scale * euro + cfg["discount"] * value).view(-1, 3)
        loss = F.smooth_l1_loss(q, goal)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()
        anneal.step()
        running += loss.item()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), net.parameters()):
                slow.lerp_(fast, cfg["target_rate"])
        if update % 200 == 0:
            print(f"update {update:5d}  td loss {running / 200:.4f}  mean q {q.mean().item():6.2f}  "
                  f"validation income {weekly_income(net, valid):8.0f} EUR per week")
            running = 0.0


if __name__ == "__main__":
    main(sys.argv[1])
