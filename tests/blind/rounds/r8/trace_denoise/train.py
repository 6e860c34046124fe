"""Denoise fast chromatogram scans; targets are long averaged scans of the same runs."""
import sys
from pathlib import Path
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split

EPOCHS, BATCH, LR = 12, 40, 3e-3


class Denoiser(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.inp = nn.Conv1d(1, width, 7, padding=3)
        self.mid = nn.Conv1d(width, width, 7, padding=3)
        self.out = nn.Conv1d(width, 1, 7, padding=3)
        self.act = nn.GELU()

    def forward(self, x):
        h = self.act(self.inp(x))
        h = h + self.act(self.mid(h))
        return self.out(h)


def load(folder):
    noisy = torch.from_numpy(np.load(folder / "fast_scan.npy")).float().div(255).unsqueeze(1)
    target = torch.from_numpy(np.load(folder / "averaged_scan.npy")).float().div(255).unsqueeze(1)
    return TensorDataset(noisy, target)


def psnr(mse):
    return -10 * np.log10(mse)


@torch.no_grad()
def evaluate(model, loader, centre):
    model.eval()
    error = n = 0
    for x, y in loader:
        pred = model(x - centre) + centre
        error += ((pred - y) ** 2).mean().item() * len(x)
        n += len(x)
    return error / n


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(40)
    data = load(folder)
    train_set, val_set = random_split(data, [800, 200])
    train = DataLoader(train_set, batch_size=BATCH, shuffle=True)
    val = DataLoader(val_set, batch_size=100)
    centre = data.tensors[0][train_set.indices].mean()

    model = Denoiser()
    opt = torch.optim.Adam(model.parameters(), lr=LR)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=5, gamma=0.4)
    for epoch in range(1, EPOCHS + 1):
        model.train()
        total = 0.0
        for x, y in train:
            loss = nn.functional.mse_loss(model(x - centre), y - centre)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(x)
        sched.step()
        val_mse = evaluate(model, val, centre)
        print(f"epoch {epoch:2d}  train mse {total / len(train_set):.5f}  val mse {val_mse:.5f}  val psnr {psnr(val_mse):.2f} dB")
    torch.save({"model": model.state_dict(), "centre": centre}, "/tmp/trace_denoiser.pt")


if __name__ == "__main__":
    main()
