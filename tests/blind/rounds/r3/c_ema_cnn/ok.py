import copy, os
import gzip

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DATA = os.environ["TRUELOOP_DATA"] + "/mnist"
torch.manual_seed(1)


def load(split, n):
    with gzip.open(f"{DATA}/{split}-images-idx3-ubyte.gz") as f:
        img = np.frombuffer(f.read(16 + 784 * n)[16:], np.uint8).reshape(n, 1, 28, 28)
    with gzip.open(f"{DATA}/{split}-labels-idx1-ubyte.gz") as f:
        lab = np.frombuffer(f.read(8 + n)[8:], np.uint8)
    img = torch.from_numpy(img.astype(np.float32) / 255)
    return F.avg_pool2d(img, 2), torch.from_numpy(lab.astype(np.int64))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.head = nn.Linear(24 * 9, 10)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


class ModelEma:
    def __init__(self, model, decay):
        self.decay = decay
        self.module = copy.deepcopy(model).eval()
        for p in self.module.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model, step):
        decay = min(self.decay, (1 + step) / (10 + step))
        for e, m in zip(self.module.parameters(), model.parameters()):
            e.mul_(decay).add_(m, alpha=1 - decay)
        for e, m in zip(self.module.buffers(), model.buffers()):
            e.copy_(m)


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


train_x, train_y = load("train", 4096)
val_x, val_y = load("t10k", 1000)
mean, std = train_x.mean(), train_x.std()
train_x, val_x = (train_x - mean) / std, (val_x - mean) / std
loader = DataLoader(TensorDataset(train_x, train_y), batch_size=64, shuffle=True, drop_last=True)

model = Net()
ema = ModelEma(model, decay=0.98)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
step = 0
for epoch in range(1, 4):
    model.train()
    total = 0.0
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model, step)
        step += 1
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(loader):.4f} model {accuracy(model, val_x, val_y):.4f} ema {accuracy(ema.module, val_x, val_y):.4f}")
print(f"released (EMA) model: val accuracy {accuracy(ema.module, val_x, val_y):.4f}")
