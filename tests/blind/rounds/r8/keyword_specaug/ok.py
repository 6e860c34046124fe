"""Keyword spotting on log-mel patches with SpecAugment-style masking."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

WORDS = ["yes", "no", "up", "down", "left", "right", "stop", "go"]
N_MELS, N_FRAMES = 24, 32


def synth_log_mel(n, rng):
    """Two formant tracks per word; every speaker shifts, bends and adds noise."""
    proto = np.random.default_rng(99)
    starts, ends = proto.uniform(3, 20, (len(WORDS), 2)), proto.uniform(3, 20, (len(WORDS), 2))
    labels = rng.integers(0, len(WORDS), n)
    mel = np.arange(N_MELS)[:, None]
    t = np.linspace(0, 1, N_FRAMES)[None, :]
    specs = np.zeros((n, N_MELS, N_FRAMES), np.float32)
    for i, w in enumerate(labels):
        speaker = rng.normal(0, 1.5)
        for k in range(2):
            track = starts[w, k] + (ends[w, k] - starts[w, k]) * t ** rng.uniform(0.6, 1.6) + speaker
            specs[i] += np.exp(-((mel - track) ** 2) / 3.0)
        specs[i] += rng.normal(0, 0.45, (N_MELS, N_FRAMES))
    return torch.from_numpy(specs), torch.from_numpy(labels)


class SpecAugment:
    def __init__(self, max_freq=5, max_time=7):
        self.max_freq, self.max_time = max_freq, max_time

    def __call__(self, spec):
        f = int(torch.randint(0, self.max_freq + 1, (1,)))
        f0 = int(torch.randint(0, N_MELS - f + 1, (1,)))
        t = int(torch.randint(0, self.max_time + 1, (1,)))
        t0 = int(torch.randint(0, N_FRAMES - t + 1, (1,)))
        spec[f0:f0 + f, :] = 0.0
        spec[:, t0:t0 + t] = 0.0
        return spec


class KeywordSet(Dataset):
    def __init__(self, specs, labels, transform=None):
        self.specs, self.labels, self.transform = specs, labels, transform

    def __len__(self):
        return len(self.specs)

    def __getitem__(self, i):
        spec = self.specs[i].clone()
        if self.transform is not None:
            spec = self.transform(spec)
        return spec.unsqueeze(0), self.labels[i]


class KwsNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Linear(16 * (N_MELS // 4) * (N_FRAMES // 4), n_classes)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def evaluate(model, loader, criterion):
    model.eval()
    loss, hits, n = 0.0, 0, 0
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            loss += criterion(out, y).item() * len(y)
            hits += (out.argmax(1) == y).sum().item()
            n += len(y)
    return loss / n, hits / n


def main(epochs=15, seed=5):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    x_tr, y_tr = synth_log_mel(512, rng)
    x_va, y_va = synth_log_mel(400, rng)
    mean, std = x_tr.mean(), x_tr.std()
    train_set = KeywordSet((x_tr - mean) / std, y_tr, SpecAugment())
    valid_set = KeywordSet((x_va - mean) / std, y_va)
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
    valid_loader = DataLoader(valid_set, batch_size=100)

    model = KwsNet(len(WORDS))
    criterion = nn.CrossEntropyLoss()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=3e-3, total_steps=epochs * len(train_loader))
    for epoch in range(epochs):
        model.train()
        running = 0.0
        for x, y in train_loader:
            opt.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            opt.step()
            sched.step()
            running += loss.item() * len(y)
        if epoch % 3 == 2:
            vl, va = evaluate(model, valid_loader, criterion)
            print(f"epoch {epoch + 1:2d} train {running / len(train_set):.4f} valid {vl:.4f} acc {va:.4f}")


if __name__ == "__main__":
    main()
