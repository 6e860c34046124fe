import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(18)
T = 64


def chirps(n, gen):
    t = torch.linspace(0, 1, T)
    rising = torch.randint(0, 2, (n,), generator=gen)
    lo = 2 + 2 * torch.rand(n, 1, generator=gen)
    hi = lo + 6 + 3 * torch.rand(n, 1, generator=gen)
    phase = 6.283 * torch.rand(n, 1, generator=gen)
    start = torch.where(rising[:, None] == 1, lo, hi)
    stop = torch.where(rising[:, None] == 1, hi, lo)
    wave = torch.sin(6.283 * (start * t + (stop - start) * t * t / 2) + phase)
    return wave + 0.4 * torch.randn(n, T, generator=gen), rising.float()


class Audio(Dataset):
    def __init__(self, n, seed, transform=None):
        self.wave, self.label = chirps(n, torch.Generator().manual_seed(seed))
        self.transform = transform

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        wave = self.wave[i]
        if self.transform is not None:
            wave = self.transform(wave)
        return wave.unsqueeze(0), self.label[i]


def perturb(wave):
    if torch.rand(()) < 0.5:
        wave = wave.flip(-1)
    gain = 0.7 + 0.6 * torch.rand(())
    return gain * wave + 0.05 * torch.randn(T)


train_dl = DataLoader(Audio(1200, 0, perturb), batch_size=40, shuffle=True)
valid_dl = DataLoader(Audio(400, 1), batch_size=100)

net = nn.Sequential(
    nn.Conv1d(1, 16, 9, stride=2, padding=4), nn.BatchNorm1d(16), nn.ReLU(),
    nn.Conv1d(16, 16, 7, stride=2, padding=3), nn.BatchNorm1d(16), nn.ReLU(),
    nn.Flatten(), nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0),
)
opt = torch.optim.Adam(net.parameters(), lr=2e-3)

for epoch in range(9):
    net.train()
    total = 0.0
    for wave, label in train_dl:
        loss = F.binary_cross_entropy_with_logits(net(wave), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() / len(train_dl)
    net.eval()
    with torch.no_grad():
        scored = [(net(wave), label) for wave, label in valid_dl]
    out, truth = (torch.cat(part) for part in zip(*scored))
    print(f"epoch {epoch}  train {total:.4f}  valid {F.binary_cross_entropy_with_logits(out, truth).item():.4f}  "
          f"valid acc {((out > 0) == truth.bool()).float().mean().item():.4f}")
