"""Radar nowcasting with a convolutional GRU: from 4 reflectivity frames predict the next one."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=90)
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--lr", type=float, default=6e-3)
parser.add_argument("--seed", type=int, default=3)
SIZE, T_IN = 12, 4


def make_sequences(n, rng):
    """Gaussian rain cells advected by a constant wind, with measurement noise."""
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    frames = np.zeros((n, T_IN + 1, SIZE, SIZE), np.float32)
    for i in range(n):
        wind = rng.uniform(-1.6, 1.6, 2)
        for _ in range(2):
            pos, width, peak = rng.uniform(2, SIZE - 2, 2), rng.uniform(1.2, 2.0), rng.uniform(0.6, 1.0)
            for t in range(T_IN + 1):
                cy, cx = (pos + wind * t) % SIZE
                dy = np.minimum(np.abs(yy - cy), SIZE - np.abs(yy - cy))
                dx = np.minimum(np.abs(xx - cx), SIZE - np.abs(xx - cx))
                frames[i, t] += peak * np.exp(-(dy ** 2 + dx ** 2) / (2 * width ** 2))
    frames += rng.normal(0, 0.03, frames.shape).astype(np.float32)
    return torch.from_numpy(frames)


class ConvGRUCell(nn.Module):
    def __init__(self, c_in, hidden):
        super().__init__()
        self.hidden = hidden
        self.gates = nn.Conv2d(c_in + hidden, 2 * hidden, 5, padding=2, padding_mode="circular")
        self.cand = nn.Conv2d(c_in + hidden, hidden, 5, padding=2, padding_mode="circular")

    def forward(self, x, h):
        z, r = torch.sigmoid(self.gates(torch.cat([x, h], 1))).chunk(2, 1)
        n = torch.tanh(self.cand(torch.cat([x, r * h], 1)))
        return (1 - z) * h + z * n


class Nowcaster(nn.Module):
    def __init__(self, hidden=8):
        super().__init__()
        self.cell = ConvGRUCell(1, hidden)
        self.head = nn.Conv2d(hidden, 1, 3, padding=1, padding_mode="circular")

    def forward(self, seq):
        b, t, hgt, wid = seq.shape
        state = seq.new_zeros(b, self.cell.hidden, hgt, wid)
        for k in range(t):
            frame = seq[:, k:k + 1]
            state = self.cell(frame, state)
        return self.head(state)[:, 0] + seq[:, -1]


def validate(model, data, batch=64):
    model.eval()
    se, pers, n = 0.0, 0.0, 0
    with torch.no_grad():
        for s in range(0, len(data), batch):
            seq = data[s:s + batch]
            pred = model(seq[:, :T_IN])
            se += F.mse_loss(pred, seq[:, T_IN], reduction="sum").item()
            pers += F.mse_loss(seq[:, T_IN - 1], seq[:, T_IN], reduction="sum").item()
            n += pred.numel()
    return se / n, pers / n


def main():
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    train, valid = make_sequences(400, rng), make_sequences(80, rng)
    model = Nowcaster()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)
    perm, cursor = torch.randperm(len(train)), 0
    for step in range(1, args.steps + 1):
        if cursor + args.batch > len(train):
            perm, cursor = torch.randperm(len(train)), 0
        seq = train[perm[cursor:cursor + args.batch]]
        cursor += args.batch
        model.train()
        loss = F.mse_loss(model(seq[:, :T_IN]), seq[:, T_IN])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 18 == 0:
            mse, pers = validate(model, valid)
            print(f"step {step:4d}  train {loss.item():.5f}  valid {mse:.5f}  persistence {pers:.5f}")


if __name__ == "__main__":
    main()
