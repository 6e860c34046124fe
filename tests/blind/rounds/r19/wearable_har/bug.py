import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SEED = 4
FS = 25
WIN, STRIDE = 64, 16
ACTIVITIES = ["sit", "walk", "stairs", "run", "cycle", "brush"]
N_SUBJECTS = 12


def record(rng, subject, activity):
    """One continuous wrist accelerometer recording of about a minute."""
    n = FS * 50
    t = np.arange(n) / FS
    base_freq = [0.2, 1.8, 1.55, 2.5, 1.25, 3.1][activity]
    amp = [0.05, 0.5, 0.45, 1.2, 0.3, 0.6][activity]
    tilt = [0.2, 0.8, 1.0, 1.1, 0.4, 1.6][activity]
    f = base_freq * subject["tempo"][activity]
    phase = 2 * np.pi * f * t + np.cumsum(rng.normal(0, 0.04, n))
    sig = np.zeros((n, 3))
    for ax in range(3):
        w = subject["style"][activity, ax]
        sig[:, ax] = amp * (w[0] * np.sin(phase + w[2]) + w[1] * np.sin(2 * phase + w[3]))
    sig[:, 0] += np.cos(tilt + subject["mount"])
    sig[:, 2] += np.sin(tilt + subject["mount"])
    return (sig + rng.normal(0, 0.15, sig.shape)).astype(np.float32)


def make_subject(rng):
    style = rng.normal(0, 0.35, (len(ACTIVITIES), 3, 4))
    style[:, :, 0] += 1.0
    style[:, :, 1] += 0.5
    return {"tempo": rng.normal(1.0, 0.05, len(ACTIVITIES)), "mount": rng.normal(0, 0.25), "style": style}


def load_windows():
    rng = np.random.default_rng(SEED)
    X, y, subj = [], [], []
    for s in range(N_SUBJECTS):
        person = make_subject(rng)
        for a in range(len(ACTIVITIES)):
            stream = record(rng, person, a)
            for start in range(0, len(stream) - WIN + 1, STRIDE):
                X.append(stream[start:start + WIN].T)
                y.append(a)
                subj.append(s)
    return np.stack(X), np.array(y), np.array(subj)


def split(X, y, subj, frac=0.25):
    rng = np.random.default_rng(SEED + 1)
    held = np.isin(np.arange(len(y)), rng.choice(len(y), int(len(y) * frac), replace=False))
    mean = X[~held].mean(axis=(0, 2), keepdims=True)
    std = X[~held].std(axis=(0, 2), keepdims=True)
    X = (X - mean) / std
    tr = TensorDataset(torch.from_numpy(X[~held]), torch.from_numpy(y[~held]))
    va = TensorDataset(torch.from_numpy(X[held]), torch.from_numpy(y[held]))
    return tr, va


class HARNet(nn.Module):
    def __init__(self, channels=3, classes=len(ACTIVITIES)):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(channels, 32, 7, padding=3), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(32, 48, 5, padding=2), nn.BatchNorm1d(48), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(48, 64, 3, padding=1), nn.BatchNorm1d(64), nn.ReLU())
        self.classifier = nn.Sequential(nn.Dropout(0.3), nn.Linear(64, classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean(-1))


def macro_f1(pred, true):
    scores = []
    for c in range(len(ACTIVITIES)):
        tp = ((pred == c) & (true == c)).sum()
        denom = (pred == c).sum() + (true == c).sum()
        scores.append(2 * tp / max(denom, 1))
    return float(np.mean(scores))


def validate(model, loader):
    model.eval()
    p, t = [], []
    with torch.no_grad():
        for x, y in loader:
            p.append(model(x).argmax(1).numpy())
            t.append(y.numpy())
    p, t = np.concatenate(p), np.concatenate(t)
    return (p == t).mean(), macro_f1(p, t)


def main():
    torch.manual_seed(SEED)
    X, y, subj = load_windows()
    train_set, val_set = split(X, y, subj)
    print(f"{len(train_set)} training windows, {len(val_set)} validation windows")
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=256)
    model = HARNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(7):
        model.train()
        losses = []
        for x, target in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(x), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        acc, f1 = validate(model, val_loader)
        print(f"epoch {epoch} loss {np.mean(losses):.4f} val_acc {acc:.4f} val_f1 {f1:.4f}")


if __name__ == "__main__":
    main()
