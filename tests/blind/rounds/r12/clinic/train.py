"""DeepSurv-like Cox network on a clinic cohort, scored by concordance on an external one."""
import csv
import json
import math
import pathlib
import sys

import torch
import torch.nn as nn


def read(path):
    with path.open(newline="") as f:
        return list(csv.DictReader(f))


def matrix(rows, cfg):
    def value(r, c):
        v = float(r[c])
        return math.log(v) if c in cfg["log"] else v
    x = torch.tensor([[value(r, c) for c in cfg["columns"]] for r in rows])
    return x, torch.tensor([float(r["months"]) for r in rows])


class RiskNet(nn.Module):
    def __init__(self, d, hidden=24):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(d, hidden), nn.SELU(), nn.AlphaDropout(0.05),
                                    nn.Linear(hidden, hidden), nn.SELU(), nn.Linear(hidden, 1, bias=False))

    def forward(self, x):
        return self.layers(x).squeeze(1)


def cox_loss(risk, time, event):
    """Negative partial log likelihood; risk sets by sorting from the longest time down."""
    order = torch.argsort(time, descending=True)
    risk, event = risk[order], event[order]
    at_risk = torch.logcumsumexp(risk, 0)
    return -((risk - at_risk) * event).sum() / event.sum().clamp(min=1.0)


def concordance(risk, time, event):
    earlier = (time[:, None] < time[None]) & event[:, None].bool()
    better = (risk[:, None] > risk[None]).float() + 0.5 * (risk[:, None] == risk[None]).float()
    return (better * earlier).sum().item() / earlier.sum().item()


def main():
    home = pathlib.Path(sys.argv[1])
    cfg = json.loads((home / "settings.json").read_text())
    torch.manual_seed(cfg["seed"])
    rows = read(home / "cohort.csv")
    x, time = matrix(rows, cfg)
    event = torch.tensor([float(int(r["status"]) == cfg["event_value"]) for r in rows])
    print(f"{len(rows)} patients, median follow-up {time.median():.1f} months")
    mu, sd = x.mean(0), x.std(0)
    x = (x - mu) / sd

    net = RiskNet(x.shape[1])
    opt = torch.optim.Adam(net.parameters(), lr=cfg["lr"], weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg["epochs"], eta_min=cfg["lr"] / 20)
    for epoch in range(cfg["epochs"]):
        net.train()
        losses = []
        for idx in torch.randperm(len(x)).split(100):
            loss = cox_loss(net(x[idx]), time[idx], event[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step()
        if epoch % 4 == 0:
            print(f"epoch {epoch:2d}  partial likelihood loss {sum(losses) / len(losses):.4f}")

    ext = read(home / "external.csv")
    xe, te = matrix(ext, cfg)
    died = torch.tensor([float(r["died"] == "yes") for r in ext])
    net.eval()
    with torch.no_grad():
        print(f"external concordance {concordance(net((xe - mu) / sd), te, died):.4f}")


if __name__ == "__main__":
    main()
