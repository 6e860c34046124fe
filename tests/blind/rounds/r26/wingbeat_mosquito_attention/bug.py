"""Wingbeat frequency (Hz) of a mosquito that passes an optical sensor somewhere in a noisy recording."""
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)


@dataclass
class Setup:
    sample_rate: int = 4000
    samples: int = 320
    recordings: int = 1400
    held_out: int = 300
    batch: int = 32
    epochs: int = 10
    lr: float = 3e-3
    seed: int = 14


def record(n, cfg, rng):
    t = np.arange(cfg.samples) / cfg.sample_rate
    wave = np.zeros((n, cfg.samples), dtype=np.float32)
    hz = rng.uniform(330, 720, n).astype(np.float32)
    for i in range(n):
        centre = rng.uniform(0.012, t[-1] - 0.012)
        width = rng.uniform(0.004, 0.007)
        pulse = np.exp(-0.5 * ((t - centre) / width) ** 2)
        phase = rng.uniform(0, 2 * np.pi)
        tone = np.cos(2 * np.pi * hz[i] * t + phase) + 0.4 * np.cos(4 * np.pi * hz[i] * t + 2 * phase)
        wave[i] = rng.uniform(0.7, 1.5) * pulse * tone + rng.normal(0, 0.12, cfg.samples)
    return torch.from_numpy(wave), torch.from_numpy(hz)


class FrameEncoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(1, width, 25, stride=4, padding=12), nn.GELU(),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.GELU(),
            nn.Conv1d(width, width, 3, padding=1), nn.GELU())

    def forward(self, wave):
        return self.layers(wave.unsqueeze(1)).transpose(1, 2)


class WingbeatNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.encoder = FrameEncoder(width)
        self.key = nn.Sequential(nn.Linear(width, width), nn.Tanh())
        self.query = nn.Parameter(torch.randn(width) / math.sqrt(width))
        self.head = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, 1))

    def forward(self, wave):
        frames = self.encoder(wave)
        score = torch.einsum("ntc,c->nt", self.key(frames), self.query)
        weight = (score - score.logsumexp(0, keepdim=True)).exp()
        passage = torch.einsum("nt,ntc->nc", weight, frames)
        return self.head(passage).squeeze(1)


def run(cfg):
    rng = np.random.default_rng(cfg.seed)
    torch.manual_seed(cfg.seed)
    wave, hz = record(cfg.recordings, cfg, rng)
    held_wave, held_hz = record(cfg.held_out, cfg, rng)
    scale = wave.std()
    centre, spread = hz.mean(), hz.std()

    net = WingbeatNet()
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    total = cfg.epochs * math.ceil(len(wave) / cfg.batch)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=cfg.lr * 2, total_steps=total)
    for epoch in range(1, cfg.epochs + 1):
        net.train()
        summed = 0.0
        for rows in torch.randperm(len(wave)).split(cfg.batch):
            pred = net(wave[rows] / scale)
            loss = nn.functional.huber_loss(pred, (hz[rows] - centre) / spread)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            summed += loss.item() * len(rows)
        net.eval()
        with torch.no_grad():
            guess = torch.cat([net(part / scale) for part in held_wave.split(100)]) * spread + centre
        mae = (guess - held_hz).abs().mean().item()
        print(f"epoch {epoch:2d}  loss {summed / len(wave):.4f}  held-out MAE {mae:.1f} Hz")


if __name__ == "__main__":
    run(Setup())
