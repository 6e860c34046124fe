"""Classify manipulation skills from end-effector trajectories."""
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

FOLDER = Path(__file__).parent / sys.argv[1]


class SkillGRU(nn.Module):
    def __init__(self, d, hidden, classes):
        super().__init__()
        self.gru = nn.GRU(d, hidden, batch_first=True)
        self.out = nn.Linear(hidden, classes)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        _, h = self.gru(packed)
        return self.out(h[-1])


def load():
    x = torch.from_numpy(np.load(FOLDER / "trajectories.npy").astype(np.float32))
    lengths = torch.from_numpy(np.load(FOLDER / "lengths.npy").astype(np.int64))
    y = torch.from_numpy(np.load(FOLDER / "skills.npy").astype(np.int64))
    return x, lengths, y


def evaluate(model, x, lengths, y):
    model.eval()
    with torch.no_grad():
        out = model(x, lengths)
        return nn.functional.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(0)
    x, lengths, y = load()
    perm = torch.randperm(len(x))
    tr, va = perm[:-250], perm[-250:]
    print(f"{len(tr)} train / {len(va)} val trajectories, padded to {x.size(1)} steps")
    model = SkillGRU(x.size(2), 32, int(y.max()) + 1)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(8):
        model.train()
        total = 0.0
        for idx in tr[torch.randperm(len(tr))].split(32):
            loss = nn.functional.cross_entropy(model(x[idx], lengths[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            total += loss.item() * len(idx)
        vl, acc = evaluate(model, x[va], lengths[va], y[va])
        print(f"epoch {epoch} train loss {total / len(tr):.4f} val loss {vl:.4f} acc {acc:.3f}")


if __name__ == "__main__":
    main()
