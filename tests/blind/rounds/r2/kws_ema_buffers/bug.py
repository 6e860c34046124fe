import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

RATE, LENGTH, N_FFT = 4000, 1200, 128
CLASSES = 8


def synth(n, gen):
    """two tones after each other; the pair of tones is the keyword"""
    labels = torch.randint(CLASSES, (n,), generator=gen)
    t = torch.arange(LENGTH) / RATE
    first = torch.tensor([400., 700., 1000., 1300.])[labels % 4][:, None]
    second = torch.tensor([500., 1500.])[labels // 4][:, None]
    jitter = 1 + 0.05 * torch.randn(n, 1, generator=gen)
    half = (t < t[-1] * (0.35 + 0.3 * torch.rand(n, 1, generator=gen))).float()
    wave = half * torch.sin(2 * math.pi * first * jitter * t) + (1 - half) * torch.sin(2 * math.pi * second * jitter * t)
    gain = 0.002 + 0.02 * torch.rand(n, 1, generator=gen)
    wave = gain * (wave + 0.6 * torch.randn(n, LENGTH, generator=gen))
    return wave, labels


def log_spec(wave):
    spec = torch.stft(wave, N_FFT, hop_length=64, window=torch.hann_window(N_FFT), return_complex=True).abs()
    return torch.log(spec + 1e-6).unsqueeze(1)


class SmallCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn_in = nn.BatchNorm2d(1)
        self.c1 = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.b1 = nn.BatchNorm2d(8)
        self.c2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.b2 = nn.BatchNorm2d(16)
        self.fc = nn.Linear(16 * 17 * 5, CLASSES)

    def forward(self, x):
        x = self.bn_in(x)
        x = F.relu(self.b1(self.c1(x)))
        x = F.relu(self.b2(self.c2(x)))
        return self.fc(x.flatten(1))


class EMA:
    def __init__(self, model, decay):
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for avg, cur in zip(self.model.parameters(), model.parameters()):
            avg.mul_(self.decay).add_(cur, alpha=1 - self.decay)


@torch.no_grad()
def accuracy(model, x, y):
    return (model(x).argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(31)
    gen = torch.Generator().manual_seed(31)
    wave, y = synth(1400, gen)
    x = log_spec(wave)
    x_train, y_train, x_val, y_val = x[:1100], y[:1100], x[1100:], y[1100:]
    model = SmallCNN()
    ema = EMA(model, decay=0.95)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    for epoch in range(6):
        model.train()
        loss_sum = 0.0
        for idx in torch.randperm(len(x_train)).split(50):
            loss = F.cross_entropy(model(x_train[idx]), y_train[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            ema.update(model)
            loss_sum += loss.item() * len(idx)
        print(f"epoch {epoch} loss {loss_sum / len(x_train):.3f} val acc (ema) {accuracy(ema.model, x_val, y_val):.3f}")


if __name__ == "__main__":
    main()
