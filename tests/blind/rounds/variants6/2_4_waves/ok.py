import math

import torch
from torch import nn

CFG = {"length": 32, "z": 10, "batch": 64, "steps": 600, "lr_g": 1e-3, "lr_d": 1e-3, "seed": 13}


def pulses(n, gen):
    """Damped oscillations with random onset, frequency and damping."""
    t = torch.linspace(0, 1, CFG["length"])
    r = lambda lo, hi: lo + (hi - lo) * torch.rand(n, 1, generator=gen)
    f, damp, amp, shift = r(2, 3), r(1.5, 3), r(0.8, 1.3), r(0.0, 0.2)
    tt = (t - shift).clamp(min=0)
    return amp * torch.exp(-damp * tt) * torch.sin(2 * math.pi * f * tt) + 0.03 * torch.randn(n, len(t), generator=gen)


class G(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(CFG["z"], 24 * 8)
        self.up = nn.Sequential(nn.ReLU(), nn.Upsample(scale_factor=2), nn.Conv1d(24, 24, 5, padding=2), nn.ReLU(),
                                nn.Upsample(scale_factor=2), nn.Conv1d(24, 12, 5, padding=2), nn.ReLU(),
                                nn.Conv1d(12, 1, 5, padding=2))

    def forward(self, z):
        return self.up(self.fc(z).view(-1, 24, 8)).squeeze(1)


class D(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(1, 16, 5, 2, 2), nn.LeakyReLU(0.2), nn.Conv1d(16, 32, 5, 2, 2),
                                  nn.LeakyReLU(0.2))
        self.fc = nn.Linear(32 * 8, 1)

    def forward(self, x):
        return self.fc(self.conv(x.unsqueeze(1)).flatten(1))


def set_trainable(net, flag):
    for p in net.parameters():
        p.requires_grad_(flag)


def spectrum_gap(a, b):
    fa, fb = (torch.fft.rfft(v).abs() for v in (a, b))
    return ((fa.mean(0) - fb.mean(0)).abs().mean() / fb.mean() + (a.std(0) - b.std(0)).abs().mean()
            + (a.mean(0) - b.mean(0)).abs().mean()).item()


def run():
    torch.manual_seed(CFG["seed"])
    gen = torch.Generator().manual_seed(CFG["seed"])
    train, held = pulses(5000, gen), pulses(1000, gen)
    g, d = G(), D()
    opt_g = torch.optim.Adam(g.parameters(), lr=CFG["lr_g"], betas=(0.5, 0.99))
    opt_d = torch.optim.Adam(d.parameters(), lr=CFG["lr_d"], betas=(0.5, 0.99))
    for step in range(CFG["steps"]):
        set_trainable(d, True)
        real = train[torch.randint(0, len(train), (CFG["batch"],))]
        fake = g(torch.randn(CFG["batch"], CFG["z"]))
        opt_d.zero_grad()
        loss_d = 0.5 * ((d(real) - 1) ** 2).mean() + 0.5 * (d(fake) ** 2).mean()
        loss_d.backward()
        opt_d.step()

        set_trainable(d, False)
        fake = g(torch.randn(CFG["batch"], CFG["z"]))
        opt_g.zero_grad()
        loss_g = 0.5 * ((d(fake) - 1) ** 2).mean()
        loss_g.backward()
        opt_g.step()
        if step % 150 == 0:
            print(f"{step:5d} d={loss_d.item():.4f} g={loss_g.item():.4f}")
    with torch.no_grad():
        out = g(torch.randn(1000, CFG["z"]))
    print(f"waveform statistics gap: {spectrum_gap(out, held):.4f}")


if __name__ == "__main__":
    run()
