"""Keyword spotting on log-mel patches (32 bands x 40 frames)."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

WORDS = ["yes", "no", "up", "down", "left", "right", "stop", "go"]


@dataclass
class Config:
    n_train: int = 1500
    per_word_test: int = 60
    batch: int = 50
    epochs: int = 4
    lr: float = 2e-3
    dropout: float = 0.3
    seed: int = 17


def synth_clip(word, gen):
    """Two formant tracks with a word-specific slope, random onset and loudness."""
    t = torch.arange(40).float()
    f = torch.arange(32).float()[:, None]
    onset = torch.randint(0, 12, (1,), generator=gen).item()
    base = 6 + 2.0 * (word % 4) + torch.randn(1, generator=gen) * 0.8
    slope = (0.22 if word < 4 else -0.02) + 0.03 * torch.randn(1, generator=gen)
    second = base + 9 - (word % 3) * 2
    active = ((t > onset) & (t < onset + 20 + (word % 2) * 5)).float()
    a = torch.exp(-(f - base - slope * (t - onset)) ** 2 / 3)
    b = torch.exp(-(f - second + slope * (t - onset)) ** 2 / 3)
    gain = 0.7 + 0.6 * torch.rand(1, generator=gen)
    return gain * (a + 0.8 * b) * active + 0.28 * torch.randn(32, 40, generator=gen)


class Clips(Dataset):
    def __init__(self, words, seed):
        gen = torch.Generator().manual_seed(seed)
        self.labels = torch.tensor(words)
        self.specs = torch.stack([synth_clip(w, gen) for w in words]).unsqueeze(1)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.specs[i], self.labels[i]


class KwsNet(nn.Module):
    def __init__(self, n_words, dropout):
        super().__init__()
        self.c1 = nn.Conv2d(1, 12, 3, stride=2, padding=1)
        self.b1 = nn.BatchNorm2d(12)
        self.c2 = nn.Conv2d(12, 24, 3, stride=2, padding=1)
        self.b2 = nn.BatchNorm2d(24)
        self.drop = nn.Dropout(dropout)
        self.fc1 = nn.Linear(24 * 8, 64)
        self.b3 = nn.BatchNorm1d(64)
        self.fc2 = nn.Linear(64, n_words)

    def forward(self, x):
        x = F.relu(self.b1(self.c1(x)))
        x = F.relu(self.b2(self.c2(x)))
        x = x.mean(-1).flatten(1)
        x = F.relu(self.b3(self.fc1(x)))
        return self.fc2(self.drop(x))


def train_epoch(model, loader, opt):
    model.train()
    total = 0.0
    for x, y in loader:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        total += loss.item()
    return total / len(loader)


def test(model, loader):
    model.eval()
    hits = 0
    with torch.no_grad():
        for x, y in loader:
            hits += (model(x).argmax(1) == y).sum().item()
    return hits / len(loader.dataset)


def main(cfg=Config()):
    torch.manual_seed(cfg.seed)
    train_words = torch.randint(0, len(WORDS), (cfg.n_train,)).tolist()
    # the test clips are listed word folder by word folder
    test_words = [w for w in range(len(WORDS)) for _ in range(cfg.per_word_test)]
    train_loader = DataLoader(Clips(train_words, 1), batch_size=cfg.batch, shuffle=True)
    test_loader = DataLoader(Clips(test_words, 2), batch_size=cfg.batch)
    model = KwsNet(len(WORDS), cfg.dropout)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        loss = train_epoch(model, train_loader, opt)
        acc = test(model, test_loader)
        print(f"[{epoch + 1}/{cfg.epochs}] loss={loss:.3f} test_acc={acc:.3f}")
    print(f"test accuracy: {acc:.4f}")


if __name__ == "__main__":
    main()
