import os
"""Few labelled catalogue photos: train a matching head on top of a pretrained, frozen embedding."""
import gzip
import sys
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

folder = sys.argv[1]
torch.manual_seed(3)
ROOT = os.environ["TRUELOOP_DATA"] + "/fashion-mnist/"


def load(split, n):
    with gzip.open(f"{ROOT}{split}-images-idx3-ubyte.gz") as f:
        f.read(16)
        x = np.frombuffer(f.read(n * 784), np.uint8).reshape(n, 1, 28, 28)
    with gzip.open(f"{ROOT}{split}-labels-idx1-ubyte.gz") as f:
        f.read(8)
        y = np.frombuffer(f.read(n), np.uint8)
    x = F.avg_pool2d(torch.from_numpy(x.astype(np.float32) / 255), 2).flatten(1)
    return (x - 0.286) / 0.33, torch.from_numpy(y.astype(np.int64))


x_all, y_all = load("train", 900)
x_tr, y_tr, x_va, y_va = x_all[:500], y_all[:500], x_all[500:], y_all[500:]
x_te, y_te = load("t10k", 1500)


class Matcher(nn.Module):
    def __init__(self, classes=10, dim=12):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(196, 96), nn.ReLU(), nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, dim))
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        z = F.normalize(self.backbone(x), dim=1)
        return self.head(z * 4)


model = Matcher()
ckpt = torch.load(f"{folder}/backbone.pt")
own = model.state_dict()
own.update({k: v for k, v in ckpt["model"].items() if k in own})
model.load_state_dict(own)
model.backbone.requires_grad_(False)
opt = torch.optim.AdamW(model.head.parameters(), lr=1e-2, weight_decay=1e-3)


@torch.no_grad()
def evaluate(x, y):
    model.eval()
    out = model(x)
    return F.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


best, state = float("inf"), None
for epoch in range(30):
    model.train()
    tot = 0.0
    for b in torch.randperm(len(x_tr)).split(50):
        loss = F.cross_entropy(model(x_tr[b]), y_tr[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item() * len(b)
    vl, va = evaluate(x_va, y_va)
    if vl < best:
        best, state = vl, {k: v.clone() for k, v in model.state_dict().items()}
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1:2d} train {tot / len(x_tr):.4f} val {vl:.4f} acc {va:.3f}")
model.load_state_dict(state)
torch.save(state, "/tmp/matcher.pt")
print("test loss %.4f acc %.3f" % evaluate(x_te, y_te))
