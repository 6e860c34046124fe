"""Distance of a rowing piece from the oarlock sensor (force N, length m, rate 1/min, head wind m/s).

    python train.py DIR

DIR: strokes.npy (all strokes of all pieces, one after the other), strokes_per_piece.txt, distance_m.npy
"""
import argparse
import os

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Pieces(Dataset):
    def __init__(self, flat, offsets, target, which):
        self.flat, self.offsets, self.target, self.which = flat, offsets, target, which

    def __len__(self):
        return len(self.which)

    def __getitem__(self, i):
        p = self.which[i]
        return self.flat[self.offsets[p]:self.offsets[p + 1]], self.target[p]


def collate(items):
    seqs, target = zip(*items)
    lengths = torch.tensor([len(s) for s in seqs])
    return pad_sequence(seqs, batch_first=True), lengths, torch.stack(target)


class PieceNet(nn.Module):
    """GRU over the strokes; every stroke gives its share of the distance and the shares are added."""

    def __init__(self, inputs=4, hidden=32):
        super().__init__()
        self.gru = nn.GRU(inputs, hidden, batch_first=True)
        self.share = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 1))

    def forward(self, x, lengths):
        h, _ = self.gru(x)
        part = self.share(h).squeeze(-1)
        inside = torch.arange(x.shape[1])[None, :] < lengths[:, None]
        return (part * inside).sum(1)


def evaluate(net, loader, per_stroke):
    net.eval()
    errors = []
    with torch.no_grad():
        for x, lengths, y in loader:
            errors.append((net(x, lengths) * per_stroke - y).abs())
    return torch.cat(errors).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder")
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--batch", type=int, default=40)
    ap.add_argument("--lr", type=float, default=4e-3)
    args = ap.parse_args()
    torch.manual_seed(0)

    flat = np.load(os.path.join(args.folder, "strokes.npy"))
    y = torch.from_numpy(np.load(os.path.join(args.folder, "distance_m.npy")))
    lengths = np.loadtxt(os.path.join(args.folder, "strokes_per_piece.txt"), dtype=int)
    assert lengths.sum() == len(flat) and len(lengths) == len(y)
    offsets = np.concatenate([[0], np.cumsum(lengths)])

    perm = np.random.default_rng(1).permutation(len(y))
    va, tr = perm[:250], perm[250:]
    rows = np.concatenate([flat[offsets[p]:offsets[p + 1]] for p in tr])
    flat = torch.from_numpy((flat - rows.mean(0)) / rows.std(0))
    per_stroke = float(y[tr].sum() / lengths[tr].sum())

    train = DataLoader(Pieces(flat, offsets, y, tr), args.batch, shuffle=True, collate_fn=collate)
    valid = DataLoader(Pieces(flat, offsets, y, va), 250, collate_fn=collate)
    net = PieceNet()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs * len(train), eta_min=1e-4)
    for epoch in range(1, args.epochs + 1):
        net.train()
        total = 0.0
        for x, n, dist in train:
            loss = nn.functional.huber_loss(net(x, n), dist / per_stroke, delta=2.0)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            opt.step()
            sched.step()
            total += loss.item()
        print(f"epoch {epoch:2d} | loss {total / len(train):.4f} | validation error {evaluate(net, valid, per_stroke):.2f} m")


if __name__ == "__main__":
    main()
