# Final switch state of a voice command (last "on"/"off" wins).
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn


class CommandRNN(nn.Module):
    def __init__(self, vocab=15, emb=12, hid=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=0)
        self.rnn = nn.RNN(emb, hid, batch_first=True)
        self.out = nn.Linear(hid, 2)

    def forward(self, ids, lengths):
        h, _ = self.rnn(self.emb(ids))
        last = h[torch.arange(len(ids)), lengths - 1]
        return self.out(last)


def load_split(folder, name):
    with np.load(Path(folder) / f"{name}.npz") as z:
        return tuple(torch.from_numpy(z[k]) for k in ("ids", "lengths", "label"))


def iterate(data, size, shuffle):
    n = len(data[0])
    order = torch.randperm(n) if shuffle else torch.arange(n)
    for idx in order.split(size):
        yield tuple(t[idx] for t in data)


def accuracy(model, data):
    model.eval()
    with torch.no_grad():
        good = sum((model(i, l).argmax(1) == y).sum().item() for i, l, y in iterate(data, 200, False))
    return good / len(data[0])


def train(folder, epochs=7):
    torch.manual_seed(3)
    train_data, test_data = load_split(folder, "train"), load_split(folder, "test")
    model = CommandRNN()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for ep in range(epochs):
        model.train()
        tot = 0.0
        for ids, lengths, y in iterate(train_data, 50, True):
            loss = nn.functional.cross_entropy(model(ids, lengths), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            tot += loss.item() * len(y)
        print(f"epoch {ep + 1} loss {tot / len(train_data[0]):.3f}")
    print(f"test accuracy {accuracy(model, test_data):.3f}")


train(sys.argv[1])
