"""Turbine power from wind direction and speed, all sites pooled."""
import csv
import sys
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset


class SiteFile(Dataset):
    def __init__(self, path):
        with open(path, newline="") as f:
            table = list(csv.DictReader(f))
        self.direction = torch.tensor([float(r["wind_dir"]) for r in table])
        self.speed = torch.tensor([float(r["wind_speed"]) for r in table])
        self.power = torch.tensor([float(r["power"]) for r in table])

    def __len__(self):
        return len(self.power)

    def __getitem__(self, i):
        d = self.direction[i]
        return torch.stack([d.cos(), d.sin(), self.speed[i] / 10]), self.power[i].unsqueeze(0)


class PowerCurve(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.seq = nn.Sequential(nn.Linear(3, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))

    def forward(self, x):
        return self.seq(x)


def rmse(model, dataset):
    model.eval()
    se = 0.0
    with torch.no_grad():
        for x, y in DataLoader(dataset, batch_size=128):
            se += (model(x) - y).pow(2).sum().item()
    return (se / len(dataset)) ** 0.5


def main(folder):
    torch.manual_seed(0)
    folder = Path(folder)
    sites = ConcatDataset([SiteFile(p) for p in sorted(folder.glob("site_*.csv"))])
    check = SiteFile(folder / "check.csv")
    loader = DataLoader(sites, batch_size=40, shuffle=True)
    model = PowerCurve()
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    loss_fn = nn.MSELoss()
    for epoch in range(25):
        model.train()
        total = 0.0
        for x, y in loader:
            opt.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            opt.step()
            total += loss.item()
        if epoch % 6 == 0:
            print(f"epoch {epoch} mse {total / len(loader):.4f}")
    print(f"rmse on check file: {rmse(model, check):.4f} MW")


if __name__ == "__main__":
    main(sys.argv[1])
