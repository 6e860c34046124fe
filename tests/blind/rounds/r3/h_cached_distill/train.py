import gzip, os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
FOLDER, ROOT = sys.argv[1], os.environ["TRUELOOP_DATA"] + "/mnist"
N, N_VAL, EPOCHS, TEMP, ALPHA = 3000, 1000, 6, 3.0, 0.8


def read(split, n):
    with gzip.open(f"{ROOT}/{split}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + 784 * n)[16:], np.uint8).reshape(n, 1, 28, 28).astype(np.float32)
    with gzip.open(f"{ROOT}/{split}-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(8 + n)[8:], np.uint8).astype(np.int64)
    return F.avg_pool2d(torch.from_numpy(x) / 255, 2).flatten(1), torch.from_numpy(y)


class Student(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(196, width), nn.ReLU(), nn.Linear(width, 10))

    def forward(self, x):
        return self.net(x)


def kd_loss(logits, teacher_logits, y):
    soft = F.kl_div(
        F.log_softmax(logits / TEMP, 1), F.log_softmax(teacher_logits / TEMP, 1), log_target=True, reduction="batchmean"
    )
    return ALPHA * TEMP ** 2 * soft + (1 - ALPHA) * F.cross_entropy(logits, y)


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    logits = model(x)
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


train_x, train_y = read("train", N)
val_x, val_y = read("t10k", N_VAL)
mean, std = train_x.mean(), train_x.std()
train_x, val_x = (train_x - mean) / std, (val_x - mean) / std
cache = torch.from_numpy(np.load(f"{FOLDER}/teacher_logits.npz")["logits"].astype(np.float32))
print(f"{len(train_x)} images, cached logits {tuple(cache.shape)}")

loader = DataLoader(TensorDataset(train_x, cache, train_y), batch_size=64, shuffle=True)
student = Student()
optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
for epoch in range(1, EPOCHS + 1):
    student.train()
    total = 0.0
    for x, t, y in loader:
        loss = kd_loss(student(x), t, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    val_loss, val_acc = evaluate(student, val_x, val_y)
    print(f"epoch {epoch} train loss {total / len(loader):.4f} val loss {val_loss:.4f} val accuracy {val_acc:.4f}")
print(f"student: val loss {val_loss:.4f} val accuracy {val_acc:.4f}")
