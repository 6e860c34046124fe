"""Image classification with label smoothing, mixup or cutmix by chance, random erasing in the dataset, EMA of the
weights."""

import random

import numpy as np
import torch
import torch.nn as nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, Dataset


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class Patterns(Dataset):
    def __init__(self, n, train, rng):
        self.labels = rng.integers(0, 4, n)
        self.train = train
        ys, xs = np.mgrid[0:12, 0:12]
        waves = np.stack([np.sin(xs), np.sin(ys), np.sin(xs + ys), np.cos(xs * 0.5) * np.cos(ys * 0.5)])
        self.images = (waves[self.labels] + 0.3 * rng.standard_normal((n, 12, 12))).astype(np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        image = torch.from_numpy(self.images[i].copy()).unsqueeze(0)
        if self.train and random.random() < 0.25:
            y, x = random.randrange(9), random.randrange(9)
            image[:, y : y + 3, x : x + 3] = 0.0
        return image, int(self.labels[i])


def conv(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(conv(1, 12), nn.MaxPool2d(2), conv(12, 24), nn.AdaptiveAvgPool2d(3), nn.Flatten())
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(24 * 9, 4))

    def forward(self, x):
        return self.classifier(self.features(x))


def mixup(x, y, alpha=0.4):
    lam = np.random.beta(alpha, alpha)
    index = torch.randperm(x.size(0))
    return lam * x + (1 - lam) * x[index], y, y[index], lam


def cutmix(x, y, alpha=1.0):
    lam = np.random.beta(alpha, alpha)
    index = torch.randperm(x.size(0))
    h, w = x.shape[2:]
    ch, cw = int(h * np.sqrt(1 - lam)), int(w * np.sqrt(1 - lam))
    cy, cx = np.random.randint(0, h - ch + 1), np.random.randint(0, w - cw + 1)
    x = x.clone()
    x[:, :, cy : cy + ch, cx : cx + cw] = x[index, :, cy : cy + ch, cx : cx + cw]
    return x, y, y[index], 1 - ch * cw / (h * w)


def evaluate(model, loader):
    model.eval()
    correct = 0
    with torch.inference_mode():
        for x, y in loader:
            correct += model(x).argmax(1).eq(y).sum().item()
    return correct / len(loader.dataset)


if __name__ == "__main__":
    seed_everything(41)
    rng = np.random.default_rng(0)
    train_loader = DataLoader(Patterns(256, True, rng), batch_size=32, shuffle=True)
    val_loader = DataLoader(Patterns(64, False, rng), batch_size=64)
    model = Net()
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 3], gamma=0.3)
    for epoch in range(4):
        model.train()
        for x, y in train_loader:
            mixer = random.choice([mixup, cutmix, None])
            if mixer is None:
                loss = criterion(model(x), y)
            else:
                mixed, y_a, y_b, lam = mixer(x, y)
                out = model(mixed)
                loss = lam * criterion(out, y_a) + (1 - lam) * criterion(out, y_b)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ema.update_parameters(model)
        scheduler.step()
        print(epoch, loss.item(), evaluate(model, val_loader), evaluate(ema, val_loader))
    soft = torch.nn.functional.one_hot(torch.tensor([0, 1, 2, 3]), 4).float() * 0.9 + 0.025
    model.eval()
    with torch.no_grad():
        print("soft", criterion(model(torch.zeros(4, 1, 12, 12)), soft).item())
