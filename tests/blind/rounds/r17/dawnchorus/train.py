import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Spectrogram(nn.Module):
    def __init__(self, n_fft=256, hop=64):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))

    def forward(self, wave):
        s = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True).abs()
        s = torch.log(s + 1e-2)
        s = F.avg_pool1d(s[:, :128].transpose(1, 2), 2).transpose(1, 2)
        return (s - s.mean((1, 2), keepdim=True)).unsqueeze(1)


class BirdNet(nn.Module):
    def __init__(self, n_species):
        super().__init__()
        self.spec = Spectrogram()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d((4, 2)),
        )
        self.fc = nn.Linear(24 * 8, n_species)

    def forward(self, wave):
        h = self.conv(self.spec(wave))
        return self.fc(h.amax(3).flatten(1))


def pcm_to_float(z):
    return torch.from_numpy(z["pcm"].astype(np.float32) / 32768.0), torch.from_numpy(z["label"]).long()


def mix_background(wave, background, gain):
    start = torch.randint(0, len(background) - wave.shape[1], (len(wave),))
    cut = torch.stack([background[s:s + wave.shape[1]] for s in start.tolist()])
    return wave + gain * cut


root = Path(sys.argv[1])
cfg = json.loads((root / "config.json").read_text())
torch.manual_seed(1)
x, y = pcm_to_float(np.load(root / "clips_train.npz"))
xt, yt = pcm_to_float(np.load(root / "clips_test.npz"))
aug = cfg["augment"]
background = torch.from_numpy(np.load(root / aug["background"]))

net = BirdNet(len(cfg["species"]))
opt = torch.optim.Adam(net.parameters(), lr=cfg["lr"])
for epoch in range(cfg["epochs"]):
    net.train()
    seen = 0.0
    for ix in torch.randperm(len(x)).split(cfg["batch_size"]):
        wave = mix_background(x[ix], background, aug["gain"])
        loss = F.cross_entropy(net(wave), y[ix])
        opt.zero_grad()
        loss.backward()
        opt.step()
        seen += loss.item() * len(ix)
    print(f"epoch {epoch + 1}/{cfg['epochs']} train loss {seen / len(x):.3f}")

net.eval()
with torch.no_grad():
    pred = torch.cat([net(c) for c in xt.split(120)]).argmax(1)
print(f"test accuracy {(pred == yt).float().mean():.4f}")
