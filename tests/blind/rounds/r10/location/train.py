"""Next-location prediction from check-in trips (GRU, early stopping on validation loss)."""
import copy
import csv
import glob

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

HP = {"dim": 48, "hidden": 96, "batch": 32, "lr": 2e-3, "max_epochs": 18, "patience": 3, "seed": 19}


def read_trips(pattern="data/checkins_*.csv"):
    trips = {}
    for path in sorted(glob.glob(pattern)):
        with open(path, newline="") as fh:
            for row in csv.DictReader(fh):
                trips.setdefault(int(row["trip"]), []).append((int(row["step"]), int(row["place"])))
    return [[p for _, p in sorted(trips[t])] for t in sorted(trips)]


def to_arrays(trips, length):
    x = np.zeros((len(trips), length), dtype=np.int64)
    y = np.full((len(trips), length), -100, dtype=np.int64)
    for i, t in enumerate(trips):
        x[i, :len(t) - 1] = t[:-1]
        y[i, :len(t) - 1] = t[1:]
    return torch.from_numpy(x), torch.from_numpy(y)


class NextPlace(nn.Module):
    def __init__(self, n_places):
        super().__init__()
        self.place = nn.Embedding(n_places, HP["dim"])
        self.gru = nn.GRU(HP["dim"], HP["hidden"], batch_first=True)
        self.out = nn.Linear(HP["hidden"], n_places)

    def forward(self, x):
        return self.out(self.gru(self.place(x))[0])


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    out = model(x)
    known = y != -100
    loss = F.cross_entropy(out[known], y[known]).item()
    top1 = (out.argmax(-1)[known] == y[known]).float().mean().item()
    top5 = (out.topk(5, dim=-1).indices == y.unsqueeze(-1)).any(-1)[known].float().mean().item()
    return loss, top1, top5


def main():
    torch.set_num_threads(1)
    torch.manual_seed(HP["seed"])
    trips = read_trips()
    n_places = 1 + max(max(t) for t in trips)
    length = max(len(t) for t in trips) - 1
    order = np.random.default_rng(HP["seed"]).permutation(len(trips))
    n_val = len(trips) // 5
    x_va, y_va = to_arrays([trips[i] for i in order[:n_val]], length)
    x_tr, y_tr = to_arrays([trips[i] for i in order[n_val:]], length)
    print(f"trips: {len(x_tr)} train, {len(x_va)} val; {n_places} places")

    model = NextPlace(n_places)
    opt = torch.optim.AdamW(model.parameters(), lr=HP["lr"], weight_decay=1e-2)
    best, best_state, bad = float("inf"), None, 0
    for epoch in range(HP["max_epochs"]):
        model.train()
        losses = []
        for idx in torch.randperm(len(x_tr)).split(HP["batch"]):
            out = model(x_tr[idx])
            loss = F.cross_entropy(out.flatten(0, 1), y_tr[idx].flatten(), ignore_index=-100)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            losses.append(loss.item())
        vl, top1, top5 = evaluate(model, x_va, y_va)
        print(f"epoch {epoch:2d} train {np.mean(losses):.4f} val {vl:.4f} top1 {top1:.4f} top5 {top5:.4f}")
        if vl < best:
            best, best_state, bad = vl, copy.deepcopy(model.state_dict()), 0
        else:
            bad += 1
            if bad >= HP["patience"]:
                break
    model.load_state_dict(best_state)
    vl, top1, top5 = evaluate(model, x_va, y_va)
    print(f"kept model: val loss {vl:.4f} top1 {top1:.4f} top5 {top5:.4f}")
    return model


if __name__ == "__main__":
    main()
