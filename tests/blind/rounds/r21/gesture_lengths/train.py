"""Gesture recognition on a wristband. python train.py FOLDER"""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, Dataset, Subset


class Gestures(Dataset):
    def __init__(self, folder):
        folder = Path(folder)
        self.signals = torch.from_numpy(np.load(folder / "signals.npy"))
        self.lengths = torch.from_numpy(np.load(folder / "lengths.npy")).long()
        self.labels = torch.from_numpy(np.load(folder / "labels.npy")).long()
        self.wearer = torch.from_numpy(np.load(folder / "wearer.npy")).long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.signals[i], self.lengths[i], self.labels[i]


class GestureRNN(nn.Module):
    def __init__(self, hidden=32, classes=5):
        super().__init__()
        self.proj = nn.Linear(3, 16)
        self.gru = nn.GRU(16, hidden, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x, lengths):
        e = torch.tanh(self.proj(x))
        packed = pack_padded_sequence(e, lengths, batch_first=True, enforce_sorted=False)
        _, h = self.gru(packed)
        return self.head(h[-1])


def run_epoch(model, loader, loss_fn, opt=None):
    training = opt is not None
    model.train(training)
    total, right, n = 0.0, 0, 0
    with torch.set_grad_enabled(training):
        for x, lengths, y in loader:
            out = model(x, lengths)
            loss = loss_fn(out, y)
            if training:
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                opt.step()
            total += loss.item() * len(y)
            right += (out.argmax(1) == y).sum().item()
            n += len(y)
    return total / n, right / n


def main():
    torch.manual_seed(77)
    data = Gestures(sys.argv[1])
    held_out = data.wearer >= 20
    train = Subset(data, torch.where(~held_out)[0].tolist())
    valid = Subset(data, torch.where(held_out)[0].tolist())
    train_loader = DataLoader(train, batch_size=32, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=240)

    model = GestureRNN()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=5, gamma=0.3)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(7):
        loss, acc = run_epoch(model, train_loader, loss_fn, opt)
        v_loss, v_acc = run_epoch(model, valid_loader, loss_fn)
        sched.step()
        print(f"epoch {epoch + 1:2d}  train {loss:.3f} / {acc:.3f}   new wearers {v_loss:.3f} / {v_acc:.3f}")
    print(f"accuracy on new wearers: {v_acc:.4f}")


if __name__ == "__main__":
    main()
