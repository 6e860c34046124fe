"""Kind of siren (steady, rising, two-tone, warble) from PCM clips."""
import sys
from pathlib import Path
import numpy as np
import torch
import torch.nn as nn


class LogSpectrogram(nn.Module):
    def __init__(self, size=80, hop=40):
        super().__init__()
        self.size, self.hop = size, hop
        self.register_buffer("window", torch.hann_window(size))

    def forward(self, wave):
        spec = torch.stft(wave, self.size, self.hop, window=self.window, center=False, return_complex=True)
        return torch.log1p(spec.abs())


class SirenNet(nn.Module):
    def __init__(self, kinds=4):
        super().__init__()
        self.front = LogSpectrogram()
        self.net = nn.Sequential(nn.Flatten(), nn.LayerNorm(41 * 9), nn.Linear(41 * 9, 48), nn.ReLU(), nn.Linear(48, kinds))

    def forward(self, wave):
        return self.net(self.front(wave))


def clips(folder, part):
    z = np.load(folder / f"{part}.npz")
    wave = torch.from_numpy(z["pcm"]).float() / 32768
    wave = wave / wave.pow(2).mean(1, keepdim=True).sqrt()
    return wave, torch.from_numpy(z["kind"])


def main(folder):
    torch.manual_seed(35)
    x, y = clips(folder, "train")
    xt, yt = clips(folder, "test")
    net = SirenNet()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.01)
    for epoch in range(8):
        loss_sum = 0.0
        for rows in torch.randperm(len(x)).split(30):
            loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
            opt.zero_grad()
            loss.backward()
            opt.step()
            loss_sum += loss.item()
        with torch.no_grad():
            acc = (net(xt).argmax(1) == yt).float().mean().item()
        print(f"epoch {epoch + 1} loss {loss_sum / 20:.3f} test accuracy {acc:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
