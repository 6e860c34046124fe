import json
import pathlib
import sys
import numpy as np
import torch
from torch import nn

folder = pathlib.Path(sys.argv[1])
settings = json.loads((folder / "settings.json").read_text())


def read_table():
    table = np.loadtxt(folder / "machine.csv", delimiter=",", skiprows=1, dtype=np.float32)
    return torch.from_numpy(table[:, :-1].copy()), torch.from_numpy(table[:, -1].astype(np.int64))


class Autoencoder(nn.Module):
    def __init__(self, n, bottleneck):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(n, 16), nn.Tanh(), nn.Linear(16, bottleneck))
        self.decode = nn.Sequential(nn.Linear(bottleneck, 16), nn.Tanh(), nn.Linear(16, n))

    def forward(self, x):
        return self.decode(self.encode(x))


def scores(model, x):
    model.eval()
    with torch.no_grad():
        return (model(x) - x).square().mean(1)


def auc(low, high):
    return (high[:, None] > low[None, :]).float().mean().item()


def main():
    torch.manual_seed(67)
    x, status = read_table()
    order = torch.randperm(len(x))
    cut = int(0.7 * len(x))
    train, test = order[:cut], order[cut:]
    x_fit = x[train][status[train] == settings["normal_code"]]
    mean, std = x_fit.mean(0), x_fit.std(0)
    x_fit, x_test, s_test = (x_fit - mean) / std, (x[test] - mean) / std, status[test]
    print(f"rows {len(x)} fitted on {len(x_fit)}")
    model = Autoencoder(x.shape[1], settings["bottleneck"])
    optimizer = torch.optim.Adam(model.parameters(), lr=settings["lr"])
    for epoch in range(settings["epochs"]):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x_fit)).split(settings["batch_size"]):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x_fit[idx]), x_fit[idx])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        if epoch % 5 == 4:
            print(f"epoch {epoch} mse {total / len(x_fit):.4f}")
    s = scores(model, x_test)
    faults = s_test == settings["fault_code"]
    print(f"fault auc {auc(s[~faults], s[faults]):.3f}")


if __name__ == "__main__":
    main()
