"""Gesture classification from wrist IMU windows (3 axes accelerometer + 3 axes gyroscope)."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

GESTURES = ["wave", "punch", "twist", "swipe"]
N_SUBJECTS, REC_LEN, WINDOW, HOP = 24, 160, 48, 10


def record(subject, gesture, rng, style):
    """One continuous recording: the class sets the base frequency, the wearer the style."""
    t = np.arange(REC_LEN) / 50.0
    freq = 1.2 + 0.45 * gesture + 0.10 * style["tempo"][gesture]
    out = np.zeros((6, REC_LEN))
    for ax in range(6):
        amp = 0.5 + 0.3 * np.cos(gesture * 1.3 + ax) + 0.18 * style["amp"][gesture, ax]
        ph = style["phase"][gesture, ax]
        out[ax] = amp * np.sin(2 * np.pi * freq * t + ph) + 0.28 * style["tilt"][gesture, ax]
    return out + rng.normal(0, 0.25, out.shape)


def build(seed=0):
    rng = np.random.default_rng(seed)
    windows, labels, subjects = [], [], []
    for s in range(N_SUBJECTS):
        g = len(GESTURES)
        style = dict(tempo=rng.normal(size=g), amp=rng.normal(size=(g, 6)),
                     phase=rng.uniform(0, 6.28, (g, 6)), tilt=rng.normal(size=(g, 6)))
        for gesture in range(g):
            rec = record(s, gesture, rng, style)
            for start in range(0, REC_LEN - WINDOW + 1, HOP):
                windows.append(rec[:, start:start + WINDOW])
                labels.append(gesture)
                subjects.append(s)
    return (torch.tensor(np.stack(windows), dtype=torch.float32),
            torch.tensor(labels), torch.tensor(subjects))


class ImuNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(6, 24, 7, padding=3), nn.BatchNorm1d(24), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(24, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(),
            nn.AdaptiveAvgPool1d(4), nn.Flatten())
        self.fc = nn.Sequential(nn.Dropout(0.2), nn.Linear(128, n_classes))

    def forward(self, x):
        return self.fc(self.conv(x))


def accuracy(net, loader):
    net.eval()
    hit = n = 0
    with torch.no_grad():
        for x, y in loader:
            hit += (net(x).argmax(1) == y).sum().item()
            n += len(y)
    return hit / n


def main():
    torch.manual_seed(0)
    x, y, subject = build()
    gen = torch.Generator().manual_seed(42)
    order = torch.randperm(len(x), generator=gen)
    is_val = torch.zeros(len(x), dtype=torch.bool)
    is_val[order[:len(x) // 4]] = True
    mean = x[~is_val].mean(dim=(0, 2), keepdim=True)
    std = x[~is_val].std(dim=(0, 2), keepdim=True)
    x = (x - mean) / std
    train = DataLoader(TensorDataset(x[~is_val], y[~is_val]), batch_size=32, shuffle=True)
    valid = DataLoader(TensorDataset(x[is_val], y[is_val]), batch_size=128)
    print(f"{len(x)} windows of {N_SUBJECTS} wearers, {int((~is_val).sum())} train / {int(is_val.sum())} validation")

    net = ImuNet(len(GESTURES))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(1, 9):
        net.train()
        total = 0.0
        for xb, yb in train:
            loss = loss_fn(net(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch}  loss {total / len(train):.4f}  val acc {accuracy(net, valid):.3f}")
    print(f"expected accuracy on a new wearer: {accuracy(net, valid):.3f}")


if __name__ == "__main__":
    main()
