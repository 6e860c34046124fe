"""Early warning for pumps: will the unit fail within the next three hours?"""
import csv
import datetime as dt
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn

HISTORY = 8            # samples of 15 minutes
HORIZON_S = 3 * 3600
VAL_UNITS = {3, 7, 9}
EPOCHS, BATCH, LR = 10, 64, 2e-3


def load(folder):
    telemetry, failures = {}, {}
    with open(folder / "telemetry.csv") as f:
        for r in csv.DictReader(f):
            telemetry.setdefault(int(r["unit"]), []).append(
                (int(r["epoch_s"]), float(r["vibration_mm_s"]), float(r["temp_c"]), float(r["current_a"])))
    with open(folder / "failures.csv") as f:
        for r in csv.DictReader(f):
            when = dt.datetime.strptime(r["failed_at"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=dt.timezone.utc)
            failures.setdefault(int(r["unit"]), []).append(when.timestamp())
    return telemetry, failures


def windows(rows, fail_times):
    rows = np.array(sorted(rows))
    fails = np.array(fail_times)
    xs, ys = [], []
    for k in range(HISTORY, len(rows)):
        gap = fails - rows[k, 0]
        xs.append(rows[k - HISTORY + 1:k + 1, 1:].T)
        ys.append(float(((gap > 0) & (gap <= HORIZON_S)).any()))
    return np.stack(xs).astype(np.float32), np.array(ys, np.float32)


def collect(telemetry, failures, units):
    parts = [windows(telemetry[u], failures[u]) for u in sorted(units)]
    return tuple(torch.from_numpy(np.concatenate(p)) for p in zip(*parts))


def auc(score, label):
    rank = torch.empty_like(score)
    rank[score.argsort()] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    p = label.sum()
    return ((rank[label == 1].sum() - p * (p + 1) / 2) / (p * (len(label) - p))).item()


def main(folder):
    torch.manual_seed(0)
    telemetry, failures = load(folder)
    x_tr, y_tr = collect(telemetry, failures, set(telemetry) - VAL_UNITS)
    x_va, y_va = collect(telemetry, failures, VAL_UNITS)
    mu, sd = x_tr.mean((0, 2), keepdim=True), x_tr.std((0, 2), keepdim=True)
    x_tr, x_va = (x_tr - mu) / sd, (x_va - mu) / sd
    print(f"train {len(y_tr)} windows ({y_tr.mean():.1%} before a failure), val {len(y_va)} ({y_va.mean():.1%})")

    model = nn.Sequential(nn.Conv1d(3, 16, 3, padding=1), nn.ReLU(), nn.Flatten(),
                          nn.Linear(16 * HISTORY, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
    loss_fn = nn.BCEWithLogitsLoss(pos_weight=(1 - y_tr.mean()) / y_tr.mean())
    opt = torch.optim.Adam(model.parameters(), lr=LR, weight_decay=1e-4)
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x_tr)).split(BATCH):
            opt.zero_grad()
            loss = loss_fn(model(x_tr[idx]).squeeze(1), y_tr[idx])
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            logits = model(x_va).squeeze(1)
            vl = loss_fn(logits, y_va).item()
        print(f"epoch {epoch:2d}  train {total / len(x_tr):.4f}  val {vl:.4f}  val auc {auc(logits, y_va):.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
