import os
import sys
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCH, LR = 10, 35, 3e-3


def read_claims(folder, name):
    table = np.loadtxt(os.path.join(folder, name), delimiter=",", skiprows=1, dtype=np.float32)
    return torch.from_numpy(table[:, :-1].copy()), torch.from_numpy(table[:, -1].astype(np.int64))


class SeverityNet(nn.Module):
    def __init__(self, n_in, hidden=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, x):
        return self.net(x)


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


def main(folder):
    torch.manual_seed(4)
    x_train, y_train = read_claims(folder, "train.csv")
    x_valid, y_valid = read_claims(folder, "valid.csv")
    x_fresh, y_fresh = read_claims(folder, "fresh.csv")
    mean, std = x_train.mean(0), x_train.std(0)
    x_train, x_valid, x_fresh = ((x - mean) / std for x in (x_train, x_valid, x_fresh))
    loader = DataLoader(TensorDataset(x_train, y_train), batch_size=BATCH, shuffle=True)
    model = SeverityNet(x_train.shape[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(x)
        if epoch % 2 == 1:
            print(f"epoch {epoch} loss {total / len(x_train):.4f} valid {accuracy(model, x_valid, y_valid):.3f}")
    print(f"valid accuracy {accuracy(model, x_valid, y_valid):.3f} fresh claims {accuracy(model, x_fresh, y_fresh):.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
