import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn


class Settings(dict):
    @classmethod
    def read(cls, path):
        out = cls()
        for line in path.read_text().splitlines():
            line = line.split("#")[0].strip()
            if line:
                key, value = line.split("=", 1)
                out[key] = value
        return out

    def int(self, key):
        return int(self[key])

    def float(self, key):
        return float(self[key])

    def flag(self, key):
        return self.get(key, "0").lower() in ("1", "true", "yes", "on")


class NoiseSource:
    def __init__(self, settings):
        self.seed = settings.int("SEED")
        self.repeatable = settings.flag("REPEATABLE_NOISE")
        self.sigma = settings.float("NOISE_SIGMA")
        self.gen = torch.Generator().manual_seed(self.seed)

    def __call__(self, clean):
        if self.repeatable:
            self.gen.manual_seed(self.seed)
        return clean + self.sigma * torch.randn(clean.shape, generator=self.gen)


class BeatDenoiser(nn.Module):
    def __init__(self, length, hidden):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(length, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.dec = nn.Linear(hidden, length)

    def forward(self, beat):
        return self.dec(self.enc(beat))


def snr_gain(model, noisy, clean):
    model.eval()
    with torch.no_grad():
        out = model(noisy)
    before = (noisy - clean).pow(2).mean()
    after = (out - clean).pow(2).mean()
    return (10 * torch.log10(before / after)).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    s = Settings.read(folder / "train.env")
    torch.manual_seed(s.int("SEED"))
    z = np.load(folder / "beats.npz")
    mean, std = z["train"].mean(), z["train"].std()
    beats = {k: torch.from_numpy((z[k] - mean) / std).float() for k in z.files}
    noise = NoiseSource(s)
    model = BeatDenoiser(beats["train"].shape[1], s.int("HIDDEN"))
    opt = torch.optim.Adam(model.parameters(), lr=s.float("LR"))
    train = beats["train"]
    for epoch in range(s.int("EPOCHS")):
        model.train()
        total = 0.0
        for rows in torch.randperm(len(train)).split(s.int("BATCH")):
            clean = train[rows]
            loss = nn.functional.mse_loss(model(noise(clean)), clean)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(rows)
        if (epoch + 1) % 5 == 0:
            gain = snr_gain(model, beats["valid_noisy"], beats["valid_clean"])
            print(f"epoch {epoch + 1} loss {total / len(train):.4f} valid gain {gain:.2f} dB")
    print(f"test gain {snr_gain(model, beats['test_noisy'], beats['test_clean']):.3f} dB")


if __name__ == "__main__":
    main()
