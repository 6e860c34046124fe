"""Fashion-MNIST MLP with mixup regularisation (small-label setting)."""
import gzip, os
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(4)
np.random.seed(4)
N_TRAIN, N_VAL, EPOCHS, BATCH, ALPHA = 2500, 1500, 14, 64, 0.4


def read_idx(name, count, folder=os.environ["TRUELOOP_DATA"] + "/fashion-mnist"):
    with gzip.open(f"{folder}/{name}-images-idx3-ubyte.gz") as f:
        images = np.frombuffer(f.read(16 + count * 784)[16:], np.uint8).reshape(count, 1, 28, 28)
    with gzip.open(f"{folder}/{name}-labels-idx1-ubyte.gz") as f:
        labels = np.frombuffer(f.read(8 + count)[8:], np.uint8)
    return torch.tensor(images / 255.0, dtype=torch.float32), torch.tensor(labels.astype(np.int64))


class Mixup:
    """convex combinations of random pairs of a batch"""

    def __init__(self, alpha, num_classes):
        self.dist = torch.distributions.Beta(alpha, alpha)
        self.num_classes = num_classes

    def __call__(self, x, y):
        lam = self.dist.sample().item()
        target = F.one_hot(y, self.num_classes).float()
        mixed_x = lam * x + (1 - lam) * x[torch.randperm(len(x))]
        mixed_y = lam * target + (1 - lam) * target[torch.randperm(len(x))]
        return mixed_x, mixed_y


def soft_cross_entropy(logits, target):
    return -(target * F.log_softmax(logits, dim=1)).sum(1).mean()


x_train, y_train = read_idx("train", N_TRAIN)
x_val, y_val = read_idx("t10k", N_VAL)
mean, std = x_train.mean(), x_train.std()
x_train, x_val = (x_train - mean) / std, (x_val - mean) / std

model = nn.Sequential(
    nn.Flatten(),
    nn.Linear(784, 128), nn.BatchNorm1d(128), nn.ReLU(),
    nn.Linear(128, 64), nn.BatchNorm1d(64), nn.ReLU(),
    nn.Linear(64, 10),
)
mixup = Mixup(ALPHA, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS)


def evaluate():
    model.eval()
    with torch.no_grad():
        logits = model(x_val)
    return (logits.argmax(1) == y_val).float().mean().item(), F.cross_entropy(logits, y_val).item()


for epoch in range(EPOCHS):
    model.train()
    losses = []
    for idx in torch.randperm(N_TRAIN).split(BATCH):
        if len(idx) < 2:
            continue
        x, target = mixup(x_train[idx], y_train[idx])
        loss = soft_cross_entropy(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    scheduler.step()
    if epoch % 4 == 1:
        acc, nll = evaluate()
        print(f"epoch {epoch:2d} train {np.mean(losses):.3f} val acc {acc:.3f} val nll {nll:.3f}")
