import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(17)
LENGTH, NOISE_SEED = 48, 123


def clean_signals(n):
    t = torch.linspace(0, 1, LENGTH)
    amp = torch.rand(n, 2, 1) + 0.3
    freq = torch.rand(n, 2, 1) * 3 + 1
    phase = torch.rand(n, 2, 1) * 6.283
    return (amp * torch.sin(6.283 * freq * t + phase)).sum(1)


gen = torch.Generator().manual_seed(NOISE_SEED)


def corrupt(x, level=0.6):
    return x + level * torch.randn(x.shape, generator=gen)


class Denoiser(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.inp = nn.Linear(LENGTH, width)
        self.mid = nn.Linear(width, 32)
        self.out = nn.Sequential(nn.Linear(32, width), nn.GELU(), nn.Linear(width, LENGTH))

    def forward(self, x):
        return self.out(F.gelu(self.mid(F.gelu(self.inp(x)))))


class Loop:
    def __init__(self, model, data):
        self.model, self.data = model, data
        self.opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
        self.history = []

    def run(self, steps, size=128):
        self.model.train()
        for _ in range(steps):
            x = self.data[torch.randint(len(self.data), (size,))]
            with torch.autocast("cpu", dtype=torch.bfloat16):
                guess = self.model(corrupt(x))
            loss = F.mse_loss(guess.float(), x)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.history.append(loss.item())
        return sum(self.history[-steps:]) / steps


def psnr(a, b):
    return (10 * torch.log10(4 / (a - b).square().mean(1))).mean().item()


train = clean_signals(3000)
valid = clean_signals(500)
noisy_valid = valid + 0.6 * torch.randn(valid.shape)
loop = Loop(Denoiser(), train)

print(f"psnr of the noisy input {psnr(noisy_valid, valid):.2f}")
for block in range(8):
    mean_loss = loop.run(45)
    loop.model.eval()
    with torch.no_grad():
        restored = loop.model(noisy_valid)
    print(f"step {45 * (block + 1):3d}  train mse {mean_loss:.4f}  "
          f"valid mse {F.mse_loss(restored, valid).item():.4f}  psnr {psnr(restored, valid):.2f}")
