# Vibrato rate (Hz) of single viola notes from their pitch track: semitones (MIDI number), 80 frames a second.
import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader

torch.set_num_threads(1)

FRAMES_PER_S = 80


class PitchTracks(torch.utils.data.Dataset):
    """Notes of 0.4 s to 2 s; the pitch drifts slowly and the vibrato sets in after the attack."""

    def __init__(self, count, seed):
        g = torch.Generator().manual_seed(seed)

        def uniform(lo, hi):
            return lo + (hi - lo) * torch.rand((), generator=g).item()

        self.notes = []
        for _ in range(count):
            seconds = 0.4 + 1.6 * uniform(0, 1) ** 1.6
            n = int(seconds * FRAMES_PER_S)
            t = torch.arange(n) / FRAMES_PER_S
            rate, depth = uniform(4.3, 7.8), uniform(0.12, 0.45)
            onset = torch.clamp(t / 0.15, max=1.0)
            track = (uniform(48, 84) + uniform(-0.25, 0.25) * (t - seconds / 2)
                     + depth * onset * torch.sin(2 * math.pi * rate * t + uniform(0, 6.28))
                     + 0.03 * torch.randn(n, generator=g))
            self.notes.append((track, rate))

    def __len__(self):
        return len(self.notes)

    def __getitem__(self, i):
        return self.notes[i]


def pack(notes):
    lengths = torch.tensor([len(track) for track, _ in notes])
    width = int(lengths.max())
    pitch = torch.zeros(len(notes), width)
    for row, (track, _) in zip(pitch, notes):
        row[:len(track)] = track
    sounding = (torch.arange(width)[None] < lengths[:, None]).float()
    return pitch, sounding, torch.tensor([rate for _, rate in notes])


class DilatedBlock(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.conv = nn.Conv1d(width, width, 5, padding=2 * dilation, dilation=dilation)
        self.mix = nn.Conv1d(width, width, 1)

    def forward(self, h, sounding):
        return (h + self.mix(torch.relu(self.conv(h)))) * sounding


class VibratoNet(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.stem = nn.Conv1d(1, width, 9, padding=4)
        self.blocks = nn.ModuleList([DilatedBlock(width, d) for d in (1, 2, 4)])
        self.head = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, pitch, sounding):
        frames = sounding.sum(1, keepdim=True)
        centre = pitch.sum(1, keepdim=True) / frames
        wobble = (pitch - centre) * sounding / 0.2
        sounding = sounding.unsqueeze(1)
        h = torch.relu(self.stem(wobble.unsqueeze(1))) * sounding
        for block in self.blocks:
            h = block(h, sounding)
        return self.head(h.sum(2) / frames).squeeze(1)


def main(epochs=7, lr=4e-3):
    torch.manual_seed(2)
    train, valid = PitchTracks(676, seed=100), PitchTracks(240, seed=200)
    train_loader = DataLoader(train, batch_size=26, shuffle=True, collate_fn=pack)
    valid_loader = DataLoader(valid, batch_size=60, collate_fn=pack)
    rates = torch.tensor([rate for _, rate in train.notes])
    mean, std = rates.mean(), rates.std()

    net = VibratoNet()
    opt = torch.optim.Adam(net.parameters(), lr=lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs * len(train_loader))
    for epoch in range(epochs):
        net.train()
        seen = 0.0
        for pitch, sounding, rate in train_loader:
            loss = nn.functional.smooth_l1_loss(net(pitch, sounding), (rate - mean) / std)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 2.0)
            opt.step()
            sched.step()
            seen += loss.item() * len(rate)
        net.eval()
        with torch.no_grad():
            miss = torch.cat([(net(p, s) * std + mean - r).abs() for p, s, r in valid_loader])
        if epoch % 2 == 0:
            print(f"epoch {epoch + 1:2d}  loss {seen / len(train):.4f}  valid MAE {miss.mean():.3f} Hz  "
                  f"within 0.3 Hz {(miss < 0.3).float().mean():.0%}")


if __name__ == "__main__":
    main()
