"""Three-digit amount reader. The strips are listed in csv files, one per annotation desk."""
import gzip
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset

MNIST = os.environ["TRUELOOP_DATA"] + "/mnist/train-images-idx3-ubyte.gz"


def load_images(count):
    with gzip.open(MNIST) as fh:
        raw = np.frombuffer(fh.read(16 + count * 784), np.uint8, offset=16)
    img = torch.from_numpy(raw.reshape(count, 1, 28, 28).astype(np.float32) / 255)
    return F.avg_pool2d(img, 2)


class StripSet(Dataset):
    def __init__(self, path, images):
        table = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.int64)
        self.pick, self.cls = table[:, :3], torch.from_numpy(table[:, 3:])
        self.images = images

    def __len__(self):
        return len(self.cls)

    def __getitem__(self, i):
        strip = torch.cat([self.images[j] for j in self.pick[i]], dim=2)
        return (strip - 0.13) / 0.27, self.cls[i]


class AmountReader(nn.Module):
    def __init__(self, ch=10):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, ch, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                                  nn.Conv2d(ch, 2 * ch, 3, padding=1), nn.ReLU())
        self.cell = nn.Conv2d(2 * ch, 10, 7, stride=7)

    def forward(self, x):
        return self.cell(self.conv(x)).squeeze(2)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    digit, whole, n = 0.0, 0.0, 0
    for strip, cls in loader:
        hit = model(strip).argmax(1) == cls
        digit += hit.float().mean(1).sum().item()
        whole += hit.all(1).float().sum().item()
        n += len(cls)
    return digit / n, whole / n


def main(folder):
    torch.manual_seed(12)
    images = load_images(5200)
    desks = [StripSet(os.path.join(folder, name), images) for name in ("desk_a.csv", "desk_b.csv")]
    train = DataLoader(ConcatDataset(desks), batch_size=32, shuffle=True)
    valid = DataLoader(StripSet(os.path.join(folder, "valid.csv"), images), batch_size=200)

    model = AmountReader()
    epochs = 4
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=4e-3, total_steps=epochs * len(train))
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for strip, cls in train:
            loss = F.cross_entropy(model(strip), cls)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item() * len(cls)
        digit, whole = evaluate(model, valid)
        print(f"epoch {epoch} train loss {total / len(train.dataset):.4f} val digit acc {digit:.3f} val amount acc {whole:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
