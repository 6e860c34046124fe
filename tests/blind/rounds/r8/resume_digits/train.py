"""Adapt the digit reader to the new scanner (sideways pages), starting from its checkpoint."""
import gzip
import os
import sys
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ROOT = os.environ["TRUELOOP_DATA"] + "/mnist/"
EPOCHS, BATCH = 8, 64


def load_digits(split, first, count):
    last = first + count
    with gzip.open(f"{ROOT}{split}-images-idx3-ubyte.gz") as fh:
        x = np.frombuffer(fh.read(16 + 784 * last), np.uint8, offset=16).reshape(-1, 1, 28, 28)[first:]
    with gzip.open(f"{ROOT}{split}-labels-idx1-ubyte.gz") as fh:
        y = np.frombuffer(fh.read(8 + last), np.uint8, offset=8)[first:]
    x = torch.from_numpy(x.copy()).float() / 255
    return F.avg_pool2d(x, 2), torch.from_numpy(y.copy()).long()


def sideways(x):
    return torch.rot90(x, 1, dims=(2, 3))


def make_net():
    return nn.Sequential(nn.Flatten(), nn.Linear(196, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))


@torch.no_grad()
def accuracy(net, x, y):
    net.eval()
    return (net(x).argmax(1) == y).float().mean().item()


def resume(path, net, optimizer):
    state = torch.load(path, map_location="cpu")
    net.load_state_dict(state["net"])
    optimizer.load_state_dict(state["optimizer"])
    return state["steps"]


def main(folder):
    torch.manual_seed(0)
    x_train, y_train = load_digits("train", 10000, 3000)
    x_val, y_val = load_digits("t10k", 0, 1500)
    upright = x_val
    x_train, x_val = sideways(x_train), sideways(x_val)

    net = make_net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-4)
    step = resume(os.path.join(folder, "reader.pt"), net, optimizer)
    print(f"checkpoint of step {step}: upright {accuracy(net, upright, y_val):.3f}, sideways {accuracy(net, x_val, y_val):.3f}")

    for epoch in range(1, EPOCHS + 1):
        net.train()
        total = 0.0
        for idx in torch.randperm(len(x_train)).split(BATCH):
            loss = F.cross_entropy(net(x_train[idx]), y_train[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            total += loss.item() * len(idx)
        print(f"epoch {epoch}  step {step}  train {total / len(x_train):.4f}  val acc {accuracy(net, x_val, y_val):.4f}")
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "steps": step},
               os.path.join(folder, "reader_sideways.pt"))


if __name__ == "__main__":
    main(sys.argv[1])
