#!/usr/bin/env python3
# Next-hour change of water level in the pounds of a canal network (message passing over reaches).
import csv, json, os, sys
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

root = sys.argv[1]
run = json.load(open(os.path.join(root, "run.json")))
torch.manual_seed(run["seed"])


class Reach(nn.Module):
    """One round of messages in both directions along every reach."""

    def __init__(self, width):
        super().__init__()
        self.down = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width))
        self.up = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width))
        self.mix = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, h, src, dst):
        a, b = h[:, src], h[:, dst]
        inbox = torch.zeros_like(h)
        inbox = inbox.index_add(1, dst, self.down(torch.cat([a, b], -1)))
        inbox = inbox.index_add(1, src, self.up(torch.cat([b, a], -1)))
        return self.norm(h + self.mix(torch.cat([h, inbox], -1)))


class CanalNet(nn.Module):
    def __init__(self, n_feat, width, rounds):
        super().__init__()
        self.embed = nn.Linear(n_feat, width)
        self.rounds = nn.ModuleList(Reach(width) for _ in range(rounds))
        self.out = nn.Linear(width, 1)

    def forward(self, x, src, dst):
        h = self.embed(x)
        for r in self.rounds:
            h = r(h, src, dst)
        return self.out(h).squeeze(-1)


with open(os.path.join(root, "reaches.csv")) as f:
    pairs = [(int(r["upper_pound"]), int(r["lower_pound"])) for r in csv.DictReader(f)]
src, dst = (torch.tensor(c) for c in zip(*pairs))
width_m = np.loadtxt(os.path.join(root, "width_m.txt")).astype("f4")
z = np.load(os.path.join(root, "snapshots.npz"))
feats = np.stack([z["level_cm"], z["inflow_m3s"], z["lockages"], np.broadcast_to(width_m, z["level_cm"].shape)], -1)
x, y = torch.from_numpy(feats), torch.from_numpy(z["change_cm"])

order = torch.randperm(len(x), generator=torch.Generator().manual_seed(run["seed"]))
cut = int(run["train_fraction"] * len(x))
tr, va = order[:cut], order[cut:]
mu, sd = x[tr].mean((0, 1)), x[tr].std((0, 1))
x = (x - mu) / sd
y_sd = y[tr].std()

model = CanalNet(x.shape[-1], run["width"], run["rounds"])
opt = torch.optim.AdamW(model.parameters(), lr=run["lr"], weight_decay=1e-4)
micro, acc = run["micro_batch"], run["accumulate"]


def validate():
    model.eval()
    with torch.no_grad():
        return (model(x[va], src, dst) * y_sd - y[va]).abs().mean().item()


seen = 0
opt.zero_grad()
for epoch in range(1, run["epochs"] + 1):
    model.train()
    perm = tr[torch.randperm(len(tr))]
    losses = []
    for i in range(0, len(perm), micro):
        j = perm[i:i + micro]
        loss = F.smooth_l1_loss(model(x[j], src, dst), y[j] / y_sd)
        (loss / acc).backward()
        losses.append(loss.item())
        seen += 1
        if seen % acc == 0:
            opt.step()
            opt.zero_grad()
    if epoch % 5 == 0:
        print(f"epoch {epoch:2d} | train {np.mean(losses):.4f} | val MAE {validate():.2f} cm")

print(f"val MAE {validate():.3f} cm (no change: {y[va].abs().mean().item():.3f} cm)")
