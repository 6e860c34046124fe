import gzip
import json
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy.ndimage import rotate

ROOT = os.path.join(os.environ["TRUELOOP_DATA"], "mnist")


def load(prefix, n):
    with gzip.open(f"{ROOT}/{prefix}-images-idx3-ubyte.gz") as f:
        f.read(16)
        x = np.frombuffer(f.read(n * 784), np.uint8).reshape(n, 28, 28)
    with gzip.open(f"{ROOT}/{prefix}-labels-idx1-ubyte.gz") as f:
        f.read(8)
        y = np.frombuffer(f.read(n), np.uint8)
    return x, y


class DigitNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(784, width)
        self.fc2 = nn.Linear(width, width)
        self.fc3 = nn.Linear(width, width)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = F.relu(self.fc1(x.flatten(1)))
        return self.head(F.relu(self.fc3(F.relu(self.fc2(x)))))


def main():
    torch.manual_seed(0)
    x, y = load("train", 16200)
    xt, yt = load("t10k", 2000)
    f = lambda a: (torch.from_numpy(a.astype(np.float32) / 255) - 0.13) / 0.31
    bx, by = f(x[:15000]), torch.from_numpy(y[:15000].astype(np.int64))
    vx, vy = f(xt), torch.from_numpy(yt.astype(np.int64))
    net = DigitNet(96)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    step = 0
    for _ in range(4):
        for idx in torch.randperm(len(by)).split(64):
            opt.zero_grad(); F.cross_entropy(net(bx[idx]), by[idx]).backward(); opt.step(); step += 1
    with torch.no_grad():
        acc = (net(vx).argmax(1) == vy).float().mean().item()
    tilt = lambda a: np.stack([rotate(i, 30, reshape=False, order=1) for i in a])
    tr, va = tilt(x[15000:16200]), tilt(xt)
    for side in ("bug", "ok"):
        os.makedirs(side, exist_ok=True)
        sd = {("module." if side == "bug" else "") + k: v for k, v in net.state_dict().items()}
        torch.save({"model": sd, "step": step, "val_acc": acc}, f"{side}/base.pt")
        np.savez_compressed(f"{side}/train.npz", images=tr, labels=y[15000:16200])
        np.savez_compressed(f"{side}/valid.npz", images=va, labels=yt)
        json.dump({"seed": 0, "width": 96, "adapt": ["fc1", "fc2", "fc3"], "rank": 4, "alpha": 4,
                   "base_checkpoint": "base.pt", "lr": 0.002, "weight_decay": 0.1, "batch_size": 25,
                   "epochs": 9}, open(f"{side}/finetune.json", "w"), indent=1)


if __name__ == "__main__":
    main()
