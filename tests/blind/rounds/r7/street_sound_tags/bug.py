"""Street sound tagging: several events may be present in a clip (multi-label)."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EVENTS = ["siren", "horn", "drill", "dog", "music", "voices"]
RATES = [0.08, 0.12, 0.10, 0.15, 0.20, 0.12]
N_MEL, FRAMES = 20, 24


class TagNet(nn.Module):
    def __init__(self, n_events):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(N_MEL, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(),
            nn.Conv1d(32, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(),
        )
        self.out = nn.Linear(64, n_events)

    def forward(self, mel):
        h = self.features(mel)
        return self.out(torch.cat([h.mean(-1), h.amax(-1)], 1))


def synth(n, seed):
    pattern = np.random.default_rng(99).normal(0, 1, (len(EVENTS), N_MEL))
    rng = np.random.default_rng(seed)
    tags = (rng.random((n, len(EVENTS))) < np.array(RATES)).astype(np.float32)
    mel = rng.normal(0, 1.0, (n, N_MEL, FRAMES))
    for i, e in zip(*np.nonzero(tags)):
        length = rng.integers(8, 16)
        start = rng.integers(0, FRAMES - length)
        mel[i, :, start:start + length] += rng.uniform(0.3, 0.8) * pattern[e][:, None]
    return torch.tensor(mel, dtype=torch.float32), torch.from_numpy(tags)


def positive_weights(tags):
    pos = tags.sum(0)
    neg = len(tags) - pos
    return (pos / neg).sqrt()


def scores(model, loader):
    model.eval()
    tp = fp = fn = 0
    with torch.no_grad():
        for mel, tags in loader:
            hit = (torch.sigmoid(model(mel)) > 0.5).float()
            tp = tp + (hit * tags).sum(0)
            fp = fp + (hit * (1 - tags)).sum(0)
            fn = fn + ((1 - hit) * tags).sum(0)
    f1 = 2 * tp / (2 * tp + fp + fn).clamp(min=1)
    recall = tp / (tp + fn).clamp(min=1)
    return f1, recall


def main():
    torch.manual_seed(21)
    train = TensorDataset(*synth(1600, seed=1))
    val = TensorDataset(*synth(800, seed=2))
    train_dl = DataLoader(train, batch_size=50, shuffle=True)
    val_dl = DataLoader(val, batch_size=200)

    model = TagNet(len(EVENTS))
    criterion = nn.BCEWithLogitsLoss(pos_weight=positive_weights(train.tensors[1]))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)

    for epoch in range(8):
        model.train()
        total = 0.0
        for mel, tags in train_dl:
            loss = criterion(model(mel), tags)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(mel)
        f1, recall = scores(model, val_dl)
        print(f"epoch {epoch} loss {total / len(train):.4f} macro F1 {f1.mean():.3f} "
              f"macro recall {recall.mean():.3f}")
    for name, a, b in zip(EVENTS, f1.tolist(), recall.tolist()):
        print(f"  {name:7s} F1 {a:.3f} recall {b:.3f}")


if __name__ == "__main__":
    main()
