import json
import pathlib
import sys
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WORDS = ["on", "off", "left", "right"]
FRAMES, MELS = 30, 16


def log_mels(n, rng):
    """Synthetic log-mel spectrograms: a rising, falling, low or high formant."""
    labels = rng.integers(0, len(WORDS), n)
    out = rng.normal(-4, 1.0, (n, FRAMES, MELS)) + 0.1 * np.arange(MELS)
    for i, k in enumerate(labels):
        start, length = rng.integers(0, 10), rng.integers(12, 20)
        t = np.arange(length) / length
        centre = [3 + 8 * t, 11 - 8 * t, 4 + 0 * t, 11 + 0 * t][k] + rng.normal(0, 1)
        out[i, start:start + length] += 2.2 * np.exp(-0.5 * (np.arange(MELS)[None] - centre[:, None]) ** 2)
    return out.astype(np.float32), labels


class Spotter(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(MELS, 24, 5, stride=2), nn.ReLU(), nn.Conv1d(24, 24, 3, stride=2), nn.ReLU())
        self.fc = nn.Linear(24 * 6, len(WORDS))

    def forward(self, x):
        return self.fc(self.conv(x.transpose(1, 2)).flatten(1))


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def main(folder):
    torch.manual_seed(25)
    rng = np.random.default_rng(25)
    stats = json.loads((folder / "feature_stats.json").read_text())
    mean, std = np.array(stats["mean"], np.float32), np.array(stats["std"], np.float32)

    def split(n):
        x, y = log_mels(n, rng)
        return torch.from_numpy((x - mean) / std), torch.from_numpy(y)

    x_train, y_train = split(1000)
    x_valid, y_valid = split(400)
    loader = DataLoader(TensorDataset(x_train, y_train), batch_size=50, shuffle=True)
    model = Spotter()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(6):
        model.train()
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.4f} valid acc {accuracy(model, x_valid, y_valid):.3f}")
    print(f"valid accuracy {accuracy(model, x_valid, y_valid):.3f}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
