import json
import pathlib
import sys
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

root = pathlib.Path(sys.argv[1])
torch.manual_seed(10)
norm = json.loads((root / "norm.json").read_text())
pack = np.load(root / "beats.npz")
x = torch.from_numpy(pack["beats"].astype(np.float32)) / float(pack["gain"])
x = ((x - norm["mean"]) / norm["std"])[:, None]
y = torch.from_numpy(pack["label"].astype(np.int64))
parts = {"train": slice(0, 600), "val": slice(600, 750), "test": slice(750, 900)}
loaders = {k: DataLoader(TensorDataset(x[s], y[s]), batch_size=32, shuffle=k == "train") for k, s in parts.items()}


class BeatNet(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, 8, 7, stride=2, padding=3), nn.ReLU(),
            nn.Conv1d(8, 16, 5, stride=2, padding=2), nn.ReLU())
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(16 * 23, 32), nn.ReLU(), nn.Linear(32, classes))

    def forward(self, v):
        return self.head(self.features(v))


net = BeatNet()
opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
ce = nn.CrossEntropyLoss()


def run(split):
    net.eval()
    loss = hit = n = 0
    with torch.no_grad():
        for xb, yb in loaders[split]:
            out = net(xb)
            loss += ce(out, yb).item() * len(yb)
            hit += (out.argmax(1) == yb).sum().item()
            n += len(yb)
    return loss / n, hit / n


best, state = float("inf"), None
for epoch in range(10):
    net.train()
    tot = 0.0
    for xb, yb in loaders["train"]:
        loss = ce(net(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item() * len(yb)
    vl, va = run("val")
    if vl < best:
        best, state = vl, {k: v.clone() for k, v in net.state_dict().items()}
    print(f"epoch {epoch:2d} train {tot / 600:.4f} val {vl:.4f} acc {va:.3f}")
net.load_state_dict(state)
print("test loss %.4f acc %.3f" % run("test"))
