import argparse, os
import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import yaml


def load(folder, cfg):
    frames = {k: pd.read_csv(os.path.join(folder, cfg["files"][k])) for k in ("train", "valid")}
    tr = frames["train"]
    num = cfg["numeric"]
    mean, std = tr[num].mean(), tr[num].std()
    purposes = sorted(tr["purpose"].unique())
    out = {}
    for k, df in frames.items():
        z = ((df[num] - mean) / std).values
        onehot = np.stack([(df["purpose"] == p).values for p in purposes], axis=1)
        x = np.concatenate([z, onehot], axis=1)
        out[k] = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(df["default"].values, dtype=torch.float32)
    return out


def make_model(d_in, widths):
    layers = []
    for w in widths:
        layers += [nn.Linear(d_in, w), nn.ReLU()]
        d_in = w
    return nn.Sequential(*layers, nn.Linear(d_in, 1), nn.Flatten(0))


def balanced_accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        p = model(x) > 0
    t = y > 0.5
    return 0.5 * ((p & t).sum() / t.sum() + (~p & ~t).sum() / (~t).sum()).item()


def main():
    ap = argparse.ArgumentParser(description="default risk of consumer loans")
    ap.add_argument("folder")
    args = ap.parse_args()
    with open(os.path.join(args.folder, "loans.yaml")) as fh:
        cfg = yaml.safe_load(fh)
    torch.manual_seed(cfg["seed"])

    data = load(args.folder, cfg)
    x, y = data["train"]
    model = make_model(x.shape[1], cfg["widths"])
    weight = (1 - y.mean()) / y.mean()
    criterion = nn.BCEWithLogitsLoss(pos_weight=weight)
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    steps_per_epoch = len(y) // cfg["batch"]

    for epoch in range(cfg["epochs"]):
        model.train()
        perm = torch.randperm(len(y))
        losses = []
        for i in range(steps_per_epoch):
            rows = perm[i * cfg["batch"]:(i + 1) * cfg["batch"]]
            loss = criterion(model(x[rows]), y[rows])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1} loss {np.mean(losses):.4f} valid {balanced_accuracy(model, *data['valid']):.4f}")
    print(f"balanced accuracy (valid) {balanced_accuracy(model, *data['valid']):.4f}")


if __name__ == "__main__":
    main()
