"""Garment class and garment size from one picture; learned task weights; resumable."""
import json
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

with open("run.json") as f:
    CFG = json.load(f)


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, 8, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(16 * 49, 64), nn.ReLU(),
        )
        self.kind = nn.Linear(64, 10)
        self.size = nn.Linear(64, 1)
        self.log_var = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        h = self.trunk(x)
        return self.kind(h), self.size(h).squeeze(1)

    def combined(self, losses):
        return sum(torch.exp(-s) * l + 0.5 * s for s, l in zip(self.log_var, losses))


def task_losses(model, x, kind, size):
    logits, pred = model(x)
    return logits, (F.cross_entropy(logits, kind), 0.5 * F.mse_loss(pred, size))


def load_split(path):
    with np.load(path) as z:
        x = torch.from_numpy(z["images"].astype(np.float32) / 255.0)[:, None]
        return (x - 0.286) / 0.353, torch.from_numpy(z["kind"]), torch.from_numpy(z["size"])


@torch.no_grad()
def validate(model, x, kind, size):
    model.eval()
    logits, (_, reg) = task_losses(model, x, kind, size)
    return (logits.argmax(1) == kind).float().mean().item(), (2 * reg.item()) ** 0.5


def main():
    torch.manual_seed(CFG["seed"])
    x, kind, size = load_split("train.npz")
    val = load_split("valid.npz")
    model = TwoHeads()
    decay = [p for n, p in model.named_parameters() if n != "log_var"]
    opt = torch.optim.SGD([{"params": decay, "weight_decay": 5e-4},
                           {"params": [model.log_var], "weight_decay": 0.0}],
                          lr=CFG["lr"], momentum=0.9)
    sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.01, total_iters=CFG["epochs"])
    first = 1
    if CFG["resume"] and os.path.exists(CFG["resume"]):
        ckpt = torch.load(CFG["resume"], weights_only=True)
        model.load_state_dict(ckpt["model"])
        opt.load_state_dict(ckpt["opt"])
        sched.load_state_dict(ckpt["sched"])
        first = ckpt["epoch"] + 1
        print(f"resumed {CFG['resume']} after epoch {ckpt['epoch']}")

    for epoch in range(first, min(CFG["epochs"], CFG["stop_after"]) + 1):
        model.train()
        sums = np.zeros(2)
        batches = torch.randperm(len(kind)).split(CFG["batch_size"])
        for idx in batches:
            opt.zero_grad()
            _, losses = task_losses(model, x[idx], kind[idx], size[idx])
            model.combined(losses).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            sums += [l.item() for l in losses]
        sched.step()
        acc, rmse = validate(model, *val)
        ce, reg = sums / len(batches)
        print(f"epoch {epoch:2d}  train ce {ce:.4f}  train size loss {reg:.4f}  "
              f"val acc {acc:.4f}  val size RMSE {rmse:.4f}")
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(),
                    "sched": sched.state_dict(), "epoch": epoch}, CFG["save"])
    weights = torch.exp(-model.log_var.detach()).tolist()
    print(f"task weights: kind {weights[0]:.2f}, size {weights[1]:.2f}")


if __name__ == "__main__":
    main()
