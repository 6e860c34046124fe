"""Fault diagnosis of gearboxes from one-second accelerometer windows."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = ["healthy", "chipped_tooth", "worn_bearing", "misaligned"]
LENGTH = 256


def simulate(n, rng):
    t = np.arange(LENGTH) / LENGTH
    y = rng.integers(0, len(CLASSES), n)
    x = np.zeros((n, LENGTH))
    for i, c in enumerate(y):
        shaft = rng.uniform(7, 10)
        phase = rng.uniform(0, 2 * np.pi, 4)
        mesh = shaft * 4
        s = np.sin(2 * np.pi * shaft * t + phase[0]) + 0.7 * np.sin(2 * np.pi * mesh * t + phase[1])
        if c == 1:                                  # one short burst per turn
            impact = np.exp(-(((t * shaft + phase[2]) % 1.0) / 0.10))
            s += 2.6 * impact * np.sin(2 * np.pi * 60 * t)
        elif c == 2:                                # amplitude-modulated ringing
            s += 0.6 * (1 + np.sin(2 * np.pi * 3.6 * shaft * t + phase[2])) * np.sin(2 * np.pi * 90 * t + phase[3])
        elif c == 3:                                # strong second harmonic
            s += 0.8 * np.sin(4 * np.pi * shaft * t + phase[2])
        x[i] = s * rng.uniform(0.7, 1.4) + rng.normal(0, 0.45, LENGTH)
    return x.astype(np.float32), y


class FaultNet(nn.Module):
    def __init__(self, channels=(16, 24, 32)):
        super().__init__()
        blocks, last = [], 1
        for c in channels:
            blocks += [nn.Conv1d(last, c, 9, padding=4), nn.BatchNorm1d(c), nn.ReLU(), nn.MaxPool1d(2)]
            last = c
        self.features = nn.Sequential(*blocks)
        self.classifier = nn.Linear(2 * last, len(CLASSES))

    def forward(self, x):
        h = self.features(x.unsqueeze(1))
        return self.classifier(torch.cat([h.mean(2), h.amax(2)], 1))


class Trainer:
    def __init__(self, model, train_loader, val_loader, epochs):
        self.model, self.train_loader, self.val_loader, self.epochs = model, train_loader, val_loader, epochs
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=3, gamma=0.3)

    def train_epoch(self):
        self.model.train()
        total = 0.0
        for x, y in self.train_loader:
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            total += loss.item() * len(y)
        return total / len(self.train_loader.dataset)

    def fit(self):
        for epoch in range(self.epochs):
            loss = self.train_epoch()
            acc, _ = self.validate()
            print(f"epoch {epoch + 1}/{self.epochs}  loss {loss:.4f}  val accuracy {acc:.4f}")

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        table = torch.zeros(len(CLASSES), len(CLASSES))
        for x, y in self.val_loader:
            pred = self.model(x).argmax(1)
            for a, b in zip(y, pred):
                table[a, b] += 1
        recall = table.diagonal() / table.sum(1)
        return (table.diagonal().sum() / table.sum()).item(), recall


def main():
    torch.manual_seed(31)
    rng = np.random.default_rng(31)
    x_train, y_train = simulate(1000, rng)
    x_val, y_val = simulate(400, rng)
    mean, std = x_train.mean(), x_train.std()
    x_train, x_val = (x_train - mean) / std, (x_val - mean) / std
    train = TensorDataset(torch.from_numpy(x_train), torch.from_numpy(y_train))
    val = TensorDataset(torch.from_numpy(x_val), torch.from_numpy(y_val))
    trainer = Trainer(FaultNet(), DataLoader(train, 50, shuffle=True), DataLoader(val, 200), epochs=8)
    trainer.fit()
    acc, recall = trainer.validate()
    for name, r in zip(CLASSES, recall.tolist()):
        print(f"  recall {name:15s} {r:.3f}")
    print(f"final val accuracy {acc:.4f}")


if __name__ == "__main__":
    main()
