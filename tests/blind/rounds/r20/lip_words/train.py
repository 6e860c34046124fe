import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, Dataset


class LipClips(Dataset):
    """Mouth landmark tracks (time, 8 points x 2) with one word per clip."""

    def __init__(self, path):
        z = np.load(path)
        self.x = torch.from_numpy(z["landmarks"].astype(np.float32))
        self.n = torch.from_numpy(z["n_frames"])
        self.y = torch.from_numpy(z["word"])

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        n = int(self.n[i])
        clip = self.x[i, :n]
        pts = clip.view(n, 8, 2)
        pts = pts - pts.mean(dim=(0, 1), keepdim=True)
        vel = torch.zeros_like(pts)
        vel[1:] = pts[1:] - pts[:-1]
        return torch.cat([pts.flatten(1), vel.flatten(1)], 1), n, self.y[i]


def collate(items):
    clips, lengths, words = zip(*items)
    return nn.utils.rnn.pad_sequence(clips, batch_first=True), torch.tensor(lengths), torch.stack(words)


class LipReader(nn.Module):
    def __init__(self, n_words, d_in=32, hidden=40):
        super().__init__()
        self.proj = nn.Sequential(nn.Linear(d_in, hidden), nn.ReLU())
        self.gru = nn.GRU(hidden, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(2 * hidden, n_words))

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.proj(x), lengths, batch_first=True, enforce_sorted=False)
        _, h = self.gru(packed)
        return self.head(torch.cat([h[0], h[1]], 1))


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = [(model(x, n).argmax(1) == y) for x, n, y in loader]
    return torch.cat(hits).float().mean().item()


def main(root):
    torch.manual_seed(9)
    train, val = LipClips(root / "train.npz"), LipClips(root / "val.npz")
    n_words = int(train.y.max()) + 1
    train_dl = DataLoader(train, batch_size=30, shuffle=True, collate_fn=collate)
    val_dl = DataLoader(val, batch_size=100, collate_fn=collate)
    model = LipReader(n_words)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    epochs = 12
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    ce = nn.CrossEntropyLoss()
    for epoch in range(1, epochs + 1):
        model.train()
        losses = []
        for x, n, y in train_dl:
            loss = ce(model(x, n), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            opt.step()
            losses.append(loss.item())
        sched.step()
        print(f"[{epoch:02d}/{epochs}] loss={np.mean(losses):.4f} val_acc={accuracy(model, val_dl):.4f}")
    print(f"val word accuracy {accuracy(model, val_dl):.4f} over {n_words} words")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
