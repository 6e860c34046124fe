"""Online digit recognition from pen strokes (dx, dy, pen-up) with a GRU."""
import sys

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, TensorDataset


def dataset(path):
    z = np.load(path)
    pts = torch.from_numpy(z["points"])
    pts[..., :2] *= 5.0
    return TensorDataset(pts, torch.from_numpy(z["lengths"]), torch.from_numpy(z["digit"]))


class StrokeGRU(nn.Module):
    def __init__(self, hidden=48, classes=10):
        super().__init__()
        self.rnn = nn.GRU(3, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, classes)

    def forward(self, pts, lengths):
        packed = pack_padded_sequence(pts, lengths, batch_first=True, enforce_sorted=False)
        _, h = self.rnn(packed)
        return self.head(torch.cat([h[0], h[1]], dim=1))


def evaluate(model, loader):
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for pts, ln, y in loader:
            hits += (model(pts, ln).argmax(1) == y).sum().item()
            total += len(y)
    return hits / total


def main(folder):
    torch.manual_seed(9)
    train = DataLoader(dataset(f"{folder}/strokes_train.npz"), batch_size=50, shuffle=True)
    test = DataLoader(dataset(f"{folder}/strokes_test.npz"), batch_size=250)
    model = StrokeGRU()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(6):
        model.train()
        losses = []
        for pts, ln, y in train:
            loss = criterion(model(pts, ln), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: loss {np.mean(losses):.4f}")
    print(f"test accuracy: {evaluate(model, test):.4f}")


main(sys.argv[1])
