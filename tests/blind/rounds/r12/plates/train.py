"""Read four-digit meter strips (one output block per position, multi-label soft margin as in many captcha readers)."""
import gzip
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

POSITIONS = 4


class Codec:
    def __init__(self, path):
        with open(path) as f:
            self.chars = "".join(line.rstrip("\n") for line in f)

    def __len__(self):
        return len(self.chars)

    def one_hot(self, text):
        v = np.zeros((POSITIONS, len(self.chars)), np.float32)
        for i, c in enumerate(text):
            v[i, self.chars.find(c)] = 1.0
        return v.reshape(-1)

    def decode(self, logits):
        best = logits.reshape(POSITIONS, len(self.chars)).argmax(1)
        return "".join(self.chars[k] for k in best)


def glyphs():
    path = os.path.join(os.environ["TRUELOOP_DATA"], "mnist", "train-images-idx3-ubyte.gz")
    with gzip.open(path) as f:
        img = np.frombuffer(f.read(16 + 784 * 12000), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    return F.avg_pool2d(torch.tensor(img, dtype=torch.float32) / 255, 2)[:, 0]


def strips(path, bank):
    images, texts = [], []
    with open(path) as f:
        lines = f.read().splitlines()
    for line in lines:
        where, text = line.split("\t")
        images.append(torch.cat([bank[int(k)] for k in where.split()], 1))
        texts.append(text)
    return torch.stack(images)[:, None], texts


class Reader(nn.Module):
    def __init__(self, n_chars):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 10, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(10, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d((2, 1)))
        self.fc = nn.Sequential(nn.Linear(16 * 3 * 7, 48), nn.ReLU(), nn.Linear(48, n_chars))

    def forward(self, x):
        h = self.conv(x)
        h = h.reshape(len(x), 48, POSITIONS, 7).transpose(1, 2).flatten(2)
        return self.fc(h).flatten(1)


def exact(model, codec, x, texts):
    model.eval()
    with torch.no_grad():
        out = model(x).numpy()
    model.train()
    return float(np.mean([codec.decode(o) == t for o, t in zip(out, texts)]))


folder = sys.argv[1]
torch.manual_seed(12)
codec = Codec(os.path.join(folder, "charset.txt"))
bank = glyphs()
x_train, t_train = strips(os.path.join(folder, "train.tsv"), bank)
x_test, t_test = strips(os.path.join(folder, "test.tsv"), bank)
y_train = torch.from_numpy(np.stack([codec.one_hot(t) for t in t_train]))
print(len(t_train), "strips,", len(codec), "characters")

model = Reader(len(codec))
criterion = nn.MultiLabelSoftMarginLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
EPOCHS = 7
for epoch in range(EPOCHS):
    for group in optimizer.param_groups:
        group["lr"] = 2e-3 * (1.0 if epoch < EPOCHS - 2 else 0.2)
    running = 0.0
    for batch in torch.randperm(len(x_train)).split(25):
        optimizer.zero_grad()
        loss = criterion(model(x_train[batch]), y_train[batch])
        loss.backward()
        optimizer.step()
        running += loss.item() * len(batch)
    print("epoch", epoch, "loss", round(running / len(x_train), 4))
print(f"test strips read exactly {exact(model, codec, x_test, t_test):.4f}")
