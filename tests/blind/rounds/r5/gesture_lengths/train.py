import os
import sys
import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, TensorDataset


def load(folder):
    archive = np.load(os.path.join(folder, "features.npz"))
    x = torch.tensor(archive["x"], dtype=torch.float32) / 30
    y = torch.tensor(archive["y"], dtype=torch.long)
    with open(os.path.join(folder, "lengths.txt")) as f:
        lengths = torch.tensor([int(line) for line in f])
    assert len(lengths) == len(x) == len(y)
    return TensorDataset(x, lengths, y)


class KeywordGRU(nn.Module):
    def __init__(self, n_features, hidden, n_words):
        super().__init__()
        self.gru = nn.GRU(n_features, hidden, batch_first=True)
        self.out = nn.Linear(hidden, n_words)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        _, h = self.gru(packed)
        return self.out(h[-1])


def evaluate(model, loader):
    model.eval()
    hit = n = 0
    with torch.no_grad():
        for x, lengths, y in loader:
            hit += (model(x, lengths).argmax(1) == y).sum().item()
            n += len(y)
    return hit / n


def main():
    torch.manual_seed(41)
    data = load(sys.argv[1])
    train, valid = torch.utils.data.random_split(data, [700, 200])
    train_loader = DataLoader(train, batch_size=35, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=100)
    model = KeywordGRU(6, 24, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(7):
        model.train()
        total = 0.0
        for x, lengths, y in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x, lengths), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(train_loader):.4f} valid acc {evaluate(model, valid_loader):.3f}")
    print(f"valid accuracy {evaluate(model, valid_loader):.3f}")


if __name__ == "__main__":
    main()
