"""Classify synthetic spectra; the averaged copy of the weights is what gets shipped."""
import copy
import torch
from torch import nn


class Averager:
    def __init__(self, model, decay=0.97):
        self.decay = decay
        self.shadow = copy.deepcopy(model).eval()
        for q in self.shadow.parameters():
            q.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for q, w in zip(self.shadow.parameters(), model.parameters()):
            q.lerp_(w, 1.0 - self.decay)


class Callback:
    def after_step(self, trainer): ...
    def after_epoch(self, trainer, epoch): ...


class EmaCallback(Callback):
    def __init__(self, averager):
        self.averager = averager

    def after_step(self, trainer):
        self.averager.update(trainer.model)


class Printer(Callback):
    def after_epoch(self, trainer, epoch):
        if (epoch + 1) % 4 == 0:
            print(f"epoch {epoch + 1}: loss {trainer.last_loss:.4f}")


class Trainer:
    def __init__(self, model, callbacks, lr=2e-3):
        self.model, self.callbacks = model, callbacks
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.crit = nn.CrossEntropyLoss()
        self.last_loss = float("nan")

    def run(self, x, y, epochs, batch=64):
        for epoch in range(epochs):
            self.model.train()
            for rows in torch.randperm(len(x)).split(batch):
                self.opt.zero_grad()
                loss = self.crit(self.model(x[rows]), y[rows])
                loss.backward()
                self.opt.step()
                self.last_loss = loss.item()
                for cb in self.callbacks:
                    cb.after_step(self)
            for cb in self.callbacks:
                cb.after_epoch(self, epoch)


def spectra(n, gen, bins=64, classes=5):
    y = torch.randint(0, classes, (n,), generator=gen)
    axis = torch.arange(bins).float()
    peak = 10.0 + 10.0 * y[:, None] + 2.0 * torch.randn(n, 1, generator=gen)
    base = 40 + 15 * torch.rand(n, 1, generator=gen)
    x = base + 9.0 * torch.exp(-0.5 * ((axis - peak) / 2.5) ** 2)
    return x + 1.5 * torch.randn(n, bins, generator=gen), y


def build():
    return nn.Sequential(
        nn.Unflatten(1, (1, 64)),
        nn.Conv1d(1, 8, 5, padding=2), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(4),
        nn.Conv1d(8, 16, 5, padding=2), nn.BatchNorm1d(16), nn.ReLU(),
        nn.Flatten(), nn.Linear(256, 5))


if __name__ == "__main__":
    torch.manual_seed(21)
    g = torch.Generator().manual_seed(8)
    train, test = spectra(1200, g), spectra(800, g)
    model = build()
    averager = Averager(model)
    Trainer(model, [EmaCallback(averager), Printer()]).run(*train, epochs=12)
    with torch.no_grad():
        acc = (averager.shadow(test[0]).argmax(1) == test[1]).float().mean()
    print(f"shipped model, test accuracy {acc:.4f}")
