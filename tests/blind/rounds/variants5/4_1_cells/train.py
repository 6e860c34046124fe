"""Denoiser for fluorescence patches."""
import argparse
from pathlib import Path

import numpy as np
import torch
import yaml
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Patches(Dataset):
    def __init__(self, patches):
        self.patches = torch.from_numpy(patches).float().unsqueeze(1)

    def __len__(self):
        return len(self.patches)

    def __getitem__(self, i):
        return self.patches[i]


class Denoiser(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        layers = [nn.Conv2d(1, width, 3, padding=1), nn.ReLU()]
        for _ in range(depth - 2):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
        layers.append(nn.Conv2d(width, 1, 3, padding=1))
        self.net = nn.Sequential(*layers)

    def forward(self, noisy):
        return noisy - self.net(noisy)


def psnr(pred, clean):
    mse = (pred.clamp(0, 1) - clean).pow(2).mean((1, 2, 3))
    return (10 * torch.log10(1.0 / mse)).mean().item()


@torch.no_grad()
def evaluate(model, clean, noisy):
    model.eval()
    return psnr(torch.cat([model(n) for n in noisy.split(200)]), clean)


class Trainer:
    def __init__(self, cfg, folder):
        self.cfg = cfg
        torch.manual_seed(cfg["seed"])
        self.data = np.load(folder / "patches.npz")
        self.loader = DataLoader(Patches(self.data["train"]), cfg["batch_size"], shuffle=True)
        self.model = Denoiser(cfg["width"], cfg["depth"])
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg["lr"])
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, cfg["epochs"])

    def corrupt(self, clean):
        low, high = self.cfg["sigma"]
        sigma = low + (high - low) * torch.rand(len(clean), 1, 1, 1)
        return clean + sigma * torch.randn_like(clean)

    def measured(self, part):
        return [torch.from_numpy(self.data[k]).float().unsqueeze(1) for k in (f"{part}_clean", f"{part}_noisy")]

    def fit(self):
        valid = self.measured("valid")
        for epoch in range(self.cfg["epochs"]):
            self.model.train()
            total = 0.0
            for clean in self.loader:
                loss = nn.functional.mse_loss(self.model(self.corrupt(clean)), clean)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                total += loss.item() * len(clean)
            self.sched.step()
            print(f"epoch {epoch + 1} loss {total / len(self.loader.dataset):.5f} valid psnr {evaluate(self.model, *valid):.2f} dB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    trainer = Trainer(yaml.safe_load((args.folder / "denoise.yaml").read_text()), args.folder)
    trainer.fit()
    print(f"test psnr {evaluate(trainer.model, *trainer.measured('test')):.3f} dB")
