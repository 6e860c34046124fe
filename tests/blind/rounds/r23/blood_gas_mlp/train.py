import csv
import math
import pathlib
import sys
import tomllib

import torch
from torch import nn


def read_table(path, target):
    with open(path, newline="") as f:
        reader = csv.DictReader(f)
        names = [c for c in reader.fieldnames if c not in ("sample", target)]
        x, y = [], []
        for row in reader:
            x.append([float(row[c]) if row[c] else math.nan for c in names])
            y.append(float(row[target]))
    return names, torch.tensor(x), torch.tensor(y)


class Preprocessor:
    """Median for missing values, then zero mean and unit variance; fitted on training rows."""

    def fit(self, x):
        self.median = x.nanmedian(0).values
        filled = self.fill(x)
        self.mean, self.std = filled.mean(0), filled.std(0)
        return self

    def fill(self, x):
        return torch.where(x.isnan(), self.median, x)

    def __call__(self, x):
        return torch.cat([(self.fill(x) - self.mean) / self.std, x.isnan().float()], 1)


def mlp(n_in, hidden, dropout):
    layers = []
    for h in hidden:
        layers += [nn.Linear(n_in, h), nn.ReLU(), nn.Dropout(dropout)]
        n_in = h
    return nn.Sequential(*layers, nn.Linear(n_in, 1), nn.Flatten(0))


def validate(model, x, hours, mean, std):
    model.eval()
    with torch.inference_mode():
        guess = model(x) * std + mean
    return (guess - hours).abs().mean().item()


def run(folder):
    settings = tomllib.loads((folder / "settings.toml").read_text())
    fit = settings["fit"]
    torch.manual_seed(settings["seed"])

    names, x_train, h_train = read_table(folder / "train.csv", settings["target"])
    _, x_valid, h_valid = read_table(folder / "valid.csv", settings["target"])
    prep = Preprocessor().fit(x_train)
    x_train, x_valid = prep(x_train), prep(x_valid)
    mean, std = h_train.mean(), h_train.std()
    z_train = (h_train - mean) / std
    print(f"{len(x_train)} + {len(x_valid)} samples, {len(names)} analytes")

    model = mlp(x_train.shape[1], **settings["model"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=fit["lr"], weight_decay=fit["weight_decay"])
    steps = fit["epochs"] * math.ceil(len(x_train) / fit["batch"])
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=steps)

    for epoch in range(fit["epochs"]):
        model.train()
        total = 0.0
        for batch in torch.randperm(len(x_train)).split(fit["batch"]):
            optimizer.zero_grad()
            loss = nn.functional.smooth_l1_loss(model(x_train[batch]), z_train[batch])
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.item() * len(batch)
        if (epoch + 1) % 10 == 0:
            mae = validate(model, x_valid, h_valid, mean, std)
            print(f"epoch {epoch + 1}: loss {total / len(x_train):.4f}, validation MAE {mae:.2f} h")
    print(f"validation MAE {validate(model, x_valid, h_valid, mean, std):.3f} h")


run(pathlib.Path(sys.argv[1]))
