import json, os
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from train import MotifEncoder

here = os.path.dirname(os.path.abspath(__file__))
R = np.random.default_rng(40)
MOTIFS = R.integers(-4, 5, (8, 4))   # interval patterns, one per composer


def tunes(n, seed, composers):
    r = np.random.default_rng(seed)
    y = r.integers(0, len(composers), n)
    out = []
    for k in y:
        steps = r.integers(-4, 5, 24)
        for s in r.choice(5, 2, replace=False) * 5:
            steps[s:s + 4] = MOTIFS[composers[k]]
        p = [int(r.integers(6, 19))]
        for s in steps:
            p.append((p[-1] + s) % 25)
        out.append(p[1:])
    return np.array(out, dtype=np.uint8), y.astype(np.uint8)


class Pre(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = MotifEncoder()
        self.top = nn.Linear(48, 8)

    def forward(self, x):
        return self.top(self.body(x))


torch.manual_seed(0)
px, py = tunes(6000, 9, list(range(8)))
px, py = torch.tensor(px).long(), torch.tensor(py).long()
m = Pre()
o = torch.optim.Adam(m.parameters(), lr=4e-3)
for ep in range(12):
    tot = 0
    for i in torch.randperm(len(px)).split(64):
        l = F.cross_entropy(m(px[i]), py[i])
        o.zero_grad(); l.backward(); nn.utils.clip_grad_norm_(m.parameters(), 1.0); o.step(); tot += l.item() * len(i)
    print("pre", ep, tot / len(px), flush=True)
    if tot / len(px) < 0.25:
        break
body = m.body.state_dict()
for name in ("bug", "ok"):
    os.makedirs(f"{here}/{name}", exist_ok=True)
    for part, n, seed in (("train", 500, 1), ("val", 300, 2)):
        a, b = tunes(n, seed, [1, 3, 4, 6])
        np.savez_compressed(f"{here}/{name}/{part}.npz", notes=a, composer=b)
    pre = "module." if name == "bug" else ""
    sd = {pre + k: v for k, v in body.items()}
    sd[pre + "top.weight"] = m.top.weight.detach().clone()
    torch.save({"model": sd, "epoch": 12}, f"{here}/{name}/motif_encoder.pt")
    json.dump({"seed": 3, "lr": 2e-3, "epochs": 10, "batch_size": 25}, open(f"{here}/{name}/config.json", "w"))
