"""Cell phenotype from fluorescence crops. Plates are imaged one compound at a time."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 3
CLASSES = ["normal", "rounded", "fibrous", "vacuolated"]
SIDE = 20
rng = np.random.default_rng(SEED)
torch.manual_seed(SEED)

yy, xx = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32)


def crop(kind):
    cy, cx = rng.uniform(7, 13, 2)
    img = np.zeros((SIDE, SIDE), np.float32)
    r = np.hypot(yy - cy, xx - cx)
    if kind == 0:
        img += np.exp(-(r / rng.uniform(4.5, 6.0)) ** 2)
    elif kind == 1:
        img += 1.5 * np.exp(-(r / rng.uniform(2.2, 3.4)) ** 2)
    elif kind == 2:
        a = rng.uniform(0, np.pi)
        d = (yy - cy) * np.cos(a) + (xx - cx) * np.sin(a)
        img += 0.9 * np.exp(-(d / 1.6) ** 2)
    else:
        img += np.exp(-(r / 5.0) ** 2)
        for _ in range(3):
            vy, vx = cy + rng.normal(0, 2.2), cx + rng.normal(0, 2.2)
            img -= 0.8 * np.exp(-((yy - vy) ** 2 + (xx - vx) ** 2) / 1.5)
    img = img * rng.uniform(0.8, 1.2) + rng.normal(0, 0.25, img.shape)
    return img.astype(np.float32)


def plate(kind, wells):
    return np.stack([crop(kind) for _ in range(wells)])


def collect(plates, wells):
    images, labels = [], []
    for p in range(plates):
        kind = p % len(CLASSES)
        images.append(plate(kind, wells))
        labels += [kind] * wells
    x = torch.from_numpy(np.concatenate(images))[:, None]
    return x, torch.tensor(labels)


class ConvNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.c1 = nn.Conv2d(1, 12, 3, padding=1, bias=False)
        self.b1 = nn.BatchNorm2d(12)
        self.c2 = nn.Conv2d(12, 24, 3, padding=1, bias=False)
        self.b2 = nn.BatchNorm2d(24)
        self.fc = nn.Linear(24, 48)
        self.b3 = nn.BatchNorm1d(48)
        self.out = nn.Linear(48, n_classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.b1(self.c1(x))), 2)
        x = F.relu(self.b2(self.c2(x)))
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.out(F.relu(self.b3(self.fc(x))))


def evaluate(net, x, y, wells):
    correct = 0
    with torch.no_grad():
        for xb, yb in zip(x.split(wells), y.split(wells)):
            correct += (net(xb).argmax(1) == yb).sum().item()
    return correct / len(y)


WELLS = 48
x_train, y_train = collect(64, WELLS)
x_test, y_test = collect(16, WELLS)
mean, std = x_train.mean(), x_train.std()
x_train, x_test = (x_train - mean) / std, (x_test - mean) / std

net = ConvNet(len(CLASSES))
EPOCHS = 8
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=EPOCHS)
print("train wells", len(y_train), "test wells", len(y_test))
for epoch in range(EPOCHS):
    net.train()
    losses = []
    for idx in torch.randperm(len(y_train)).split(64):
        loss = F.cross_entropy(net(x_train[idx]), y_train[idx])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    schedule.step()
    acc = evaluate(net, x_test, y_test, WELLS)
    print(f"epoch {epoch}  loss {np.mean(losses):.3f}  test plates acc {acc:.3f}")
print(f"accuracy on test plates: {evaluate(net, x_test, y_test, WELLS):.4f}")
