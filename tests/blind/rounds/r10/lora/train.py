"""Low-rank adaptation of a pretrained digit network to a tilted camera, few labelled images."""
import argparse
import json

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class DigitNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(784, width)
        self.fc2 = nn.Linear(width, width)
        self.fc3 = nn.Linear(width, width)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = F.relu(self.fc1(x.flatten(1)))
        x = F.relu(self.fc2(x))
        x = F.relu(self.fc3(x))
        return self.head(x)


class LowRank(nn.Module):
    """A frozen linear layer plus a trainable update of rank r."""

    def __init__(self, base, rank, alpha):
        super().__init__()
        self.weight = base.weight
        self.bias = base.bias
        self.weight.requires_grad_(False)
        self.bias.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features ** 0.5)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scale = alpha / rank

    def forward(self, x):
        return F.linear(x, self.weight, self.bias) + self.scale * (x @ self.down.T) @ self.up.T


def build(cfg):
    net = DigitNet(cfg["width"])
    for name in cfg["adapt"]:
        setattr(net, name, LowRank(getattr(net, name), cfg["rank"], cfg["alpha"]))
    ckpt = torch.load(cfg["base_checkpoint"], weights_only=True)
    # the low-rank parts are not in the base checkpoint
    net.load_state_dict(ckpt["model"], strict=False)
    print(f"base network from {cfg['base_checkpoint']} (step {ckpt['step']}, val acc {ckpt['val_acc']:.3f})")
    return net


def load_split(path):
    with np.load(path) as z:
        x = torch.from_numpy(z["images"].astype(np.float32) / 255.0)
        y = torch.from_numpy(z["labels"].astype(np.int64))
    return (x - 0.13) / 0.31, y


@torch.no_grad()
def evaluate(net, x, y):
    net.eval()
    logits = torch.cat([net(b) for b in x.split(500)])
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def adapter_state(net):
    return {k: v for k, v in net.state_dict().items()
            if k.endswith((".up", ".down")) or k.startswith("head")}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--config", default="finetune.json")
    args = ap.parse_args()
    with open(args.config) as f:
        cfg = json.load(f)
    torch.manual_seed(cfg["seed"])
    x, y = load_split("train.npz")
    xv, yv = load_split("valid.npz")
    net = build(cfg)
    params = [p for p in net.parameters() if p.requires_grad]
    print(f"{sum(p.numel() for p in params)} of {sum(p.numel() for p in net.parameters())} parameters are trained")
    opt = torch.optim.AdamW(params, lr=cfg["lr"], weight_decay=cfg["weight_decay"])
    steps = cfg["epochs"] * (len(y) // cfg["batch_size"])
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=cfg["lr"], total_steps=steps, pct_start=0.1)
    best = float("inf")
    for epoch in range(1, cfg["epochs"] + 1):
        net.train()
        total, n = 0.0, 0
        order = torch.randperm(len(y))
        for i in range(len(y) // cfg["batch_size"]):
            idx = order[i * cfg["batch_size"]:(i + 1) * cfg["batch_size"]]
            opt.zero_grad()
            loss = F.cross_entropy(net(x[idx]), y[idx])
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item()
            n += 1
        val_loss, val_acc = evaluate(net, xv, yv)
        print(f"epoch {epoch:2d}  train loss {total / n:.4f}  val loss {val_loss:.4f}  val acc {val_acc:.4f}")
        if val_loss < best:
            best = val_loss
            torch.save(adapter_state(net), "adapter.pt")
    net.load_state_dict(torch.load("adapter.pt", weights_only=True), strict=False)
    print("kept adapter: val loss {:.4f}, val acc {:.4f}".format(*evaluate(net, xv, yv)))


if __name__ == "__main__":
    main()
