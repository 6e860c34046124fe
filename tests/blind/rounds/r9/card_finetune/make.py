import json
import os

import numpy as np
import torch

from train import ValueNet, rollout

HERE = os.path.dirname(os.path.abspath(__file__))
torch.manual_seed(1)
rng = np.random.default_rng(1)
s, z = (torch.tensor(a) for a in rollout(40000, rng, dealer_stop=17, tie_value=0.0))
model = ValueNet()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
steps = 900
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps, eta_min=1e-7)
for step in range(1, steps + 1):
    idx = torch.randint(0, len(s), (256,))
    loss = ((model(s[idx]) - z[idx]) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
for folder in ("bug", "ok"):
    d = os.path.join(HERE, folder)
    os.makedirs(d, exist_ok=True)
    state = opt.state_dict()
    for g in state["param_groups"]:
        g.pop("initial_lr", None)
        g["lr"] = 2e-3 if folder == "ok" else float(g["lr"])
    torch.save({"model": model.state_dict(), "optimizer": state, "step": steps}, os.path.join(d, "club.pt"))
    print(folder, state["param_groups"][0]["lr"])
    with open(os.path.join(d, "config.json"), "w") as fh:
        json.dump({"resume": "club.pt", "lr": 0.002, "batch": 256, "epochs": 6, "hands": 24000, "dealer_stop": 14,
                   "tie_value": -1.0, "seed": 6}, fh, indent=1)
