"""Small ConvNet on Fashion-MNIST; the exponential moving average of the weights is what we ship."""
import copy, os
import gzip
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(9)


def read_idx(name, count, folder=os.environ["TRUELOOP_DATA"] + "/fashion-mnist"):
    with gzip.open(f"{folder}/{name}-images-idx3-ubyte.gz") as f:
        images = np.frombuffer(f.read(16 + count * 784)[16:], np.uint8).reshape(count, 1, 28, 28)
    with gzip.open(f"{folder}/{name}-labels-idx1-ubyte.gz") as f:
        labels = np.frombuffer(f.read(8 + count)[8:], np.uint8)
    return torch.tensor(images / 255.0, dtype=torch.float32), torch.tensor(labels.astype(np.int64))


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.model = copy.deepcopy(model).eval()
        for p in self.model.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for ema_p, p in zip(self.model.parameters(), model.parameters()):
            ema_p.lerp_(p, 1 - self.decay)
        for ema_b, b in zip(self.model.buffers(), model.buffers()):
            ema_b.copy_(b)


def conv_block(n_in, n_out):
    return nn.Sequential(nn.Conv2d(n_in, n_out, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU())


def build_model():
    return nn.Sequential(conv_block(1, 16), conv_block(16, 32), nn.Flatten(), nn.Linear(32 * 49, 10))


@torch.no_grad()
def accuracy(net, x, y):
    return (net(x).argmax(1) == y).float().mean().item()


def main(epochs=6, batch_size=64, lr=2e-3, decay=0.97):
    x_train, y_train = read_idx("train", 3000)
    x_val, y_val = read_idx("t10k", 1000)
    loader = DataLoader(TensorDataset(x_train, y_train), batch_size=batch_size, shuffle=True, drop_last=True)
    model = build_model()
    ema = EMA(model, decay)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-2)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            ema.update(model)
            total += loss.item()
        model.eval()
        print(f"epoch {epoch} loss {total / len(loader):.3f} "
              f"raw acc {accuracy(model, x_val, y_val):.3f} ema acc {accuracy(ema.model, x_val, y_val):.3f}")
    print(f"shipping EMA weights: val acc {accuracy(ema.model, x_val, y_val):.3f}")


if __name__ == "__main__":
    main()
