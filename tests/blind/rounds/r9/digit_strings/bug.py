"""Read four-digit strings (amount fields cut from forms) with one fully convolutional net."""
import os
import gzip
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

DATA = Path(os.environ["TRUELOOP_DATA"] + "/mnist")
N_DIGITS = 4


def read_idx(images, labels, limit):
    with gzip.open(DATA / images) as fh:
        raw = np.frombuffer(fh.read(16 + limit * 784), np.uint8, offset=16)[:limit * 784]
    with gzip.open(DATA / labels) as fh:
        lab = np.frombuffer(fh.read(8 + limit), np.uint8, offset=8)[:limit]
    img = torch.from_numpy(raw.reshape(limit, 1, 28, 28).astype(np.float32) / 255.0)
    return F.avg_pool2d(img, 2), torch.from_numpy(lab.astype(np.int64))


def compose(img, lab, n_strings, gen):
    """Put N_DIGITS random digits side by side: (n, 1, 14, 14 * N_DIGITS)."""
    pick = torch.randint(0, len(img), (n_strings, N_DIGITS), generator=gen)
    strips = torch.cat([img[pick[:, k]] for k in range(N_DIGITS)], dim=3)
    return strips, lab[pick]


class StripReader(nn.Module):
    """Image strip -> class scores for every digit cell, shape (batch, 10, N_DIGITS)."""

    def __init__(self, ch=8):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, ch, 3, padding=1), nn.BatchNorm2d(ch), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(ch, 2 * ch, 3, padding=1), nn.BatchNorm2d(2 * ch), nn.ReLU())
        self.cells = nn.Conv2d(2 * ch, 10, kernel_size=7, stride=7)

    def forward(self, x):
        return self.cells(self.features(x)).squeeze(2)


def string_loss(scores, digits):
    return F.cross_entropy(scores.reshape(-1, 10), digits.reshape(-1), label_smoothing=0.02)


@torch.no_grad()
def evaluate(model, strips, digits):
    model.eval()
    guess = torch.cat([model(s).argmax(1) for s in strips.split(200)])
    return (guess == digits).float().mean().item(), (guess == digits).all(1).float().mean().item()


class Trainer:
    def __init__(self, model, lr, epochs):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, step_size=max(1, epochs // 2), gamma=0.3)

    def run_epoch(self, strips, digits, batch):
        self.model.train()
        total = 0.0
        for idx in torch.randperm(len(strips)).split(batch):
            loss = string_loss(self.model(strips[idx]), digits[idx])
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item() * len(idx)
        self.sched.step()
        return total / len(strips)


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    img, lab = read_idx("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", 4000)
    vimg, vlab = read_idx("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", 1500)
    strips, digits = compose(img, lab, 1400, gen)
    v_strips, v_digits = compose(vimg, vlab, 400, gen)

    epochs = 4
    model = StripReader()
    trainer = Trainer(model, lr=4e-3, epochs=epochs)
    for epoch in range(epochs):
        loss = trainer.run_epoch(strips, digits, batch=32)
        digit_acc, string_acc = evaluate(model, v_strips, v_digits)
        print(f"epoch {epoch} loss {loss:.4f} val digit acc {digit_acc:.3f} val string acc {string_acc:.3f}")


if __name__ == "__main__":
    main()
