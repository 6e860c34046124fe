import argparse
from pathlib import Path

import numpy as np
import torch
import yaml
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Spectra(Dataset):
    def __init__(self, absorbance, protein, mean, std, y_mean, y_std):
        self.x = torch.from_numpy((absorbance - mean) / std).float()
        self.y = torch.from_numpy((protein - y_mean) / y_std).float()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return {"spectrum": self.x[i], "protein": self.y[i]}


class SpectrumNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, width, 7, stride=2, padding=3), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, 2 * width, 5, stride=2, padding=2), nn.BatchNorm1d(2 * width), nn.ReLU(),
            nn.Conv1d(2 * width, 2 * width, 5, stride=2, padding=2), nn.ReLU())
        self.head = nn.Sequential(nn.Flatten(), nn.LazyLinear(64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, spectrum):
        return self.head(self.features(spectrum.unsqueeze(1))).squeeze(1)


def evaluate(net, loader):
    net.eval()
    pred, true = [], []
    with torch.no_grad():
        for batch in loader:
            pred.append(net(batch["spectrum"]))
            true.append(batch["protein"])
    pred, true = torch.cat(pred), torch.cat(true)
    return (1 - (pred - true).pow(2).sum() / (true - true.mean()).pow(2).sum()).item()


def train(net, loaders, conf):
    opt = torch.optim.SGD(net.parameters(), lr=conf["lr"], momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, milestones=conf["milestones"], gamma=conf["gamma"])
    iteration = 0
    while iteration < conf["iterations"]:
        for batch in loaders["train"]:
            net.train()
            loss = nn.functional.smooth_l1_loss(net(batch["spectrum"]), batch["protein"])
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            iteration += 1
            if iteration % conf["log_every"] == 0:
                print(f"iteration {iteration} loss {loss.item():.4f} valid r2 {evaluate(net, loaders['valid']):.4f}")
            if iteration >= conf["iterations"]:
                break


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    folder = Path(parser.parse_args().folder)
    conf = yaml.safe_load(open(folder / "solver.yaml"))
    torch.manual_seed(conf["seed"])
    data = np.load(folder / "nir.npz")
    order = np.random.default_rng(conf["seed"]).permutation(len(data["protein"]))
    parts = dict(zip(("train", "valid", "test"), np.split(order, [int(0.7 * len(order)), int(0.85 * len(order))])))
    ref_x, ref_y = data["absorbance"][parts["train"]], data["protein"][parts["train"]]
    stats = (ref_x.mean(0), ref_x.std(0), ref_y.mean(), ref_y.std())
    loaders = {name: DataLoader(Spectra(data["absorbance"][rows], data["protein"][rows], *stats),
                                batch_size=conf["batch_size"], shuffle=name == "train") for name, rows in parts.items()}
    net = SpectrumNet(conf["width"])
    net(next(iter(loaders["valid"]))["spectrum"])
    train(net, loaders, conf)
    print(f"test r2 {evaluate(net, loaders['test']):.4f}")


if __name__ == "__main__":
    main()
