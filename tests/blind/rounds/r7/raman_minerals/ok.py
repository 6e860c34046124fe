"""1D CNN that names a mineral from its Raman spectrum."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset, DataLoader

torch.manual_seed(3)
MINERALS = ["quartz", "calcite", "olivine", "pyroxene", "feldspar", "gypsum"]
N_CH = 160
axis = torch.linspace(100, 1300, N_CH)


def simulate(n_per_class, gen):
    centers = torch.rand(len(MINERALS), 4, generator=torch.Generator().manual_seed(99)) * 1000 + 200
    spectra, labels = [], []
    for k in range(len(MINERALS)):
        for _ in range(n_per_class):
            pos = centers[k] + 12 * torch.randn(4, generator=gen)
            amp = 0.4 + 0.6 * torch.rand(4, generator=gen)
            s = (amp[:, None] * torch.exp(-0.5 * ((axis - pos[:, None]) / 18) ** 2)).sum(0)
            s = s + 0.3 * torch.randn(N_CH, generator=gen)
            spectra.append(s)
            labels.append(k)
    return torch.stack(spectra), torch.tensor(labels)


class RamanSet(Dataset):
    def __init__(self, spectra, labels, augment=False):
        self.spectra, self.labels, self.augment = spectra, labels, augment

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        s = self.spectra[i]
        if self.augment:
            phase = 2 * math.pi * torch.rand(1)
            drift = 0.6 * torch.randn(1) * torch.sin(axis / 250 + phase)
            s = s + drift + 0.35 * torch.randn(N_CH)
        return s, self.labels[i]


class RamanNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(1, 12, 9, padding=4)
        self.bn1 = nn.BatchNorm1d(12)
        self.conv2 = nn.Conv1d(12, 24, 9, padding=4)
        self.bn2 = nn.BatchNorm1d(24)
        self.out = nn.Linear(24 * (N_CH // 16), len(MINERALS))

    def forward(self, x):
        x = F.max_pool1d(F.relu(self.bn1(self.conv1(x.unsqueeze(1)))), 4)
        x = F.max_pool1d(F.relu(self.bn2(self.conv2(x))), 4)
        return self.out(x.flatten(1))


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hit = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return hit / len(loader.dataset)


gen = torch.Generator().manual_seed(5)
train_ds = RamanSet(*simulate(64, gen), augment=True)
val_ds = RamanSet(*simulate(60, gen))
train_dl = DataLoader(train_ds, batch_size=32, shuffle=True)
val_dl = DataLoader(val_ds, batch_size=128)

EPOCHS = 40
model = RamanNet()
opt = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=EPOCHS)
for epoch in range(EPOCHS):
    model.train()
    running = 0.0
    for x, y in train_dl:
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item() * len(y)
    sched.step()
    if epoch % 5 == 4 or epoch == 0:
        print(f"epoch {epoch + 1:2d} train loss {running / len(train_ds):.4f} val acc {accuracy(model, val_dl):.4f}")
