"""Fashion-MNIST subset, small CNN with cutout augmentation."""
import os
import gzip
import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

ROOT = os.environ["TRUELOOP_DATA"] + "/fashion-mnist"
N_TRAIN, N_VAL = 1600, 1000
EPOCHS, BATCH = 12, 64


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def read_images(name, n):
    with gzip.open(f"{ROOT}/{name}-images-idx3-ubyte.gz") as f:
        raw = np.frombuffer(f.read(16 + n * 784), np.uint8, offset=16)
    x = torch.from_numpy(raw.reshape(n, 1, 28, 28).astype(np.float32) / 255)
    return F.avg_pool2d(x, 2)


def read_labels(name, n):
    with gzip.open(f"{ROOT}/{name}-labels-idx1-ubyte.gz") as f:
        raw = np.frombuffer(f.read(8 + n), np.uint8, offset=8)
    return torch.from_numpy(raw.astype(np.int64))


class Cutout:
    def __init__(self, size, p=0.7):
        self.size, self.p = size, p

    def __call__(self, img):
        if random.random() < self.p:
            img = img.clone()
            h, w = img.shape[-2:]
            top = random.randint(0, h - self.size)
            left = random.randint(0, w - self.size)
            img[:, top:top + self.size, left:left + self.size] = 0.0
        return img


class FashionSet(Dataset):
    def __init__(self, images, labels, transform=None):
        self.images, self.labels, self.transform = images, labels, transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        img = self.images[i]
        if self.transform is not None:
            img = self.transform(img)
        return img, self.labels[i]


class SmallCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(32)
        self.fc = nn.Linear(32 * 9, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        return self.fc(x.flatten(1))


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    correct = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return correct / len(loader.dataset)


def main():
    set_seed(0)
    x_tr, y_tr = read_images("train", N_TRAIN), read_labels("train", N_TRAIN)
    x_va, y_va = read_images("t10k", N_VAL), read_labels("t10k", N_VAL)
    mean, std = x_tr.mean(), x_tr.std()
    x_tr, x_va = (x_tr - mean) / std, (x_va - mean) / std
    train = DataLoader(FashionSet(x_tr, y_tr, Cutout(6)), batch_size=BATCH, shuffle=True)
    val = DataLoader(FashionSet(x_va, y_va), batch_size=250)

    model = SmallCNN()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.08, epochs=EPOCHS, steps_per_epoch=len(train))
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for x, y in train:
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item() * len(y)
        print(f"epoch {epoch + 1:2d} | train loss {total / len(train.dataset):.4f} | val acc {accuracy(model, val):.3f}")


if __name__ == "__main__":
    main()
