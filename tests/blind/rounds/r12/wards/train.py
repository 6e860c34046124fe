"""FedAvg over hospitals: weights of the average come from the registry, as the sites do not share their data."""
import argparse
import copy
import csv
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters


def registry(path):
    with open(path, newline="") as f:
        return {r["site"]: float(r["records"]) for r in csv.DictReader(f, delimiter=";")}


class Site:
    def __init__(self, name, x, y, size):
        self.name, self.size = name, size
        self.x, self.y = torch.from_numpy(x), torch.from_numpy(y)

    def update(self, server, epochs, lr, batch):
        model = copy.deepcopy(server)
        model.train()
        opt = torch.optim.SGD(model.parameters(), lr=lr, weight_decay=1e-4)
        total = 0.0
        for _ in range(epochs):
            for idx in torch.randperm(len(self.y)).split(batch):
                loss = nn.functional.cross_entropy(model(self.x[idx]), self.y[idx])
                opt.zero_grad()
                loss.backward()
                opt.step()
                total += loss.item() * len(idx)
        return parameters_to_vector(model.parameters()).detach(), total / (epochs * len(self.y))


class Server:
    def __init__(self, model, sites):
        self.model, self.sites = model, sites

    def round(self, args):
        vectors, weights, losses = [], [], []
        for site in self.sites:
            v, loss = site.update(self.model, args.local, args.lr, args.batch)
            vectors.append(v)
            weights.append(site.size)
            losses.append(loss)
        w = torch.tensor(weights)
        w = w / w.sum()
        mean = (torch.stack(vectors) * w[:, None]).sum(0)
        vector_to_parameters(mean, self.model.parameters())
        return float(np.dot(losses, w.numpy()))

    def accuracy(self, x, y):
        self.model.eval()
        with torch.no_grad():
            return (self.model(x).argmax(1) == y).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=Path)
    ap.add_argument("--rounds", type=int, default=10)
    ap.add_argument("--local", type=int, default=2)
    ap.add_argument("--lr", type=float, default=0.1)
    ap.add_argument("--batch", type=int, default=64)
    args = ap.parse_args()
    torch.manual_seed(31)
    data = np.load(args.folder / "records.npz")
    sites = [Site(n, data[n + "_x"], data[n + "_y"], size)
             for n, size in registry(args.folder / "registry.csv").items()]
    model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 4))
    server = Server(model, sites)
    for r in range(1, args.rounds + 1):
        loss = server.round(args)
        print(f"round {r:2d}  weighted site loss {loss:.4f}")
    x, y = torch.from_numpy(data["test_x"]), torch.from_numpy(data["test_y"])
    print(f"accuracy on held-out records of all sites {server.accuracy(x, y):.4f}")


if __name__ == "__main__":
    main()
