"""Keyword spotting on log spectrograms."""
import logging
import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("kws")


@dataclass
class Config:
    sample_rate: int = 4000
    seconds: float = 0.5
    n_words: int = 10
    n_train: int = 1000
    n_val: int = 500
    batch_size: int = 64
    epochs: int = 26
    lr: float = 0.004
    factor: float = 0.1
    patience: int = 1
    seed: int = 5


def synth_words(cfg, n, gen):
    """Each word is a fixed path of two formants, spoken at random pitch, speed and loudness."""
    length = int(cfg.sample_rate * cfg.seconds)
    t = torch.linspace(0, 1, length)
    words = torch.Generator().manual_seed(77)
    anchors = torch.rand(cfg.n_words, 2, 4, generator=words)
    y = torch.randint(0, cfg.n_words, (n,), generator=gen)
    clips = torch.zeros(n, length)
    for i in range(n):
        a = anchors[y[i]]
        warp = t ** (0.8 + 0.4 * torch.rand(1, generator=gen).item())
        seg = (warp * 3).clamp(max=2.999)
        k, frac = seg.long(), seg - seg.floor()
        pitch = 0.9 + 0.2 * torch.rand(1, generator=gen).item()
        wave = torch.zeros(length)
        for f, (lo, hi) in enumerate([(250, 800), (900, 1700)]):
            path = a[f][k] * (1 - frac) + a[f][k + 1] * frac
            freq = (lo + (hi - lo) * path) * pitch
            wave += torch.sin(2 * math.pi * torch.cumsum(freq, 0) / cfg.sample_rate)
        clips[i] = wave * (0.5 + torch.rand(1, generator=gen).item())
    clips += 1.6 * torch.randn(n, length, generator=gen)
    return clips, y


def log_spectrogram(clips):
    spec = torch.stft(clips, n_fft=128, hop_length=64, window=torch.hann_window(128), return_complex=True).abs()
    return torch.log(spec + 1e-2)[:, :48]


class KeywordNet(nn.Module):
    def __init__(self, n_bins, n_words, width=48):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(n_bins, width, 5, stride=2, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(width, width, 3, padding=1), nn.BatchNorm1d(width), nn.ReLU(), nn.AdaptiveAvgPool1d(2))
        self.fc = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(2 * width, n_words))

    def forward(self, x):
        return self.fc(self.conv(x))


class Trainer:
    def __init__(self, cfg, model, train_loader, val_loader):
        self.cfg, self.model = cfg, model
        self.train_loader, self.val_loader = train_loader, val_loader
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9, weight_decay=1e-4)
        self.scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
            self.optimizer, mode="max", factor=cfg.factor, patience=cfg.patience)

    def train_epoch(self):
        self.model.train()
        total = 0.0
        for x, y in self.train_loader:
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total / len(self.train_loader)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        hits = sum((self.model(x).argmax(1) == y).sum().item() for x, y in self.val_loader)
        return hits / len(self.val_loader.dataset)

    def fit(self):
        for epoch in range(self.cfg.epochs):
            loss = self.train_epoch()
            acc = self.validate()
            self.scheduler.step(acc)
            log.info("epoch %2d loss %.4f val_acc %.4f", epoch, loss, acc)
        return self.validate()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    x_tr, y_tr = synth_words(cfg, cfg.n_train, gen)
    x_va, y_va = synth_words(cfg, cfg.n_val, gen)
    s_tr, s_va = log_spectrogram(x_tr), log_spectrogram(x_va)
    mean, std = s_tr.mean(), s_tr.std()
    train = TensorDataset((s_tr - mean) / std, y_tr)
    val = TensorDataset((s_va - mean) / std, y_va)
    trainer = Trainer(cfg, KeywordNet(s_tr.shape[1], cfg.n_words),
                      DataLoader(train, batch_size=cfg.batch_size, shuffle=True),
                      DataLoader(val, batch_size=200))
    log.info("final val accuracy %.4f", trainer.fit())


if __name__ == "__main__":
    main()
