"""Retrain with the hyper-parameters found by the last study (FOLDER/best_params.json)."""
import json
import sys
from pathlib import Path
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

PARAMS = json.loads((Path(__file__).parent / sys.argv[1] / "best_params.json").read_text())


def gripper_log(n, seed):
    """Joint torques -> one of five grasp outcomes."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 14, generator=g)
    w = torch.randn(14, 10, generator=torch.Generator().manual_seed(100))
    v = torch.randn(10, 5, generator=torch.Generator().manual_seed(101))
    y = (torch.tanh(x @ w) @ v + 0.3 * torch.randn(n, 5, generator=g)).argmax(1)
    return x, y


def build(p):
    layers, d = [], 14
    for _ in range(p["layers"]):
        layers += [nn.Linear(d, p["hidden"]), nn.ReLU(), nn.Dropout(p["dropout"])]
        d = p["hidden"]
    return nn.Sequential(*layers, nn.Linear(d, 5))


def evaluate(model, loader):
    model.eval()
    loss = hits = n = 0
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            loss += nn.functional.cross_entropy(out, y, reduction="sum").item()
            hits += (out.argmax(1) == y).sum().item()
            n += len(y)
    return loss / n, hits / n


def main():
    torch.manual_seed(PARAMS["seed"])
    train = DataLoader(TensorDataset(*gripper_log(2000, 1)), batch_size=PARAMS["batch_size"], shuffle=True)
    val = DataLoader(TensorDataset(*gripper_log(600, 2)), batch_size=200)
    model = build(PARAMS)
    opt = torch.optim.AdamW(model.parameters(), lr=PARAMS["lr"], weight_decay=PARAMS["weight_decay"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, PARAMS["epochs"])
    for epoch in range(PARAMS["epochs"]):
        model.train()
        total = 0.0
        for x, y in train:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        sched.step()
        vl, va = evaluate(model, val)
        print(f"epoch {epoch:2d} train loss {total / len(train):.4f} val loss {vl:.4f} acc {va:.3f}")


if __name__ == "__main__":
    main()
