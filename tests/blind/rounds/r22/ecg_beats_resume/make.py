import copy
import json
import os

import torch

from train import beats, build, train_epoch

cfg = {"seed": 3, "width": 8, "lr": 2e-3, "weight_decay": 1e-3, "batch_size": 32, "more_epochs": 6}
torch.manual_seed(0)
x, y = beats(320, 9)
model, opt = build(cfg)
train_epoch(model, opt, x, y, 32)
state = {"epoch": 1, "model": model.state_dict(), "optimizer": opt.state_dict()}
for side, lr in (("ok", cfg["lr"]), ("bug", 2e-7)):
    os.makedirs(side, exist_ok=True)
    s = copy.deepcopy(state)
    for g in s["optimizer"]["param_groups"]:
        g["lr"] = lr
    torch.save(s, os.path.join(side, "last.pt"))
    with open(os.path.join(side, "config.json"), "w") as f:
        json.dump(cfg, f, indent=1)
