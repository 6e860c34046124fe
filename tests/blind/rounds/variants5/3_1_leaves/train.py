import argparse
from pathlib import Path

import numpy as np
import torch
import yaml
from torch import nn


class Backbone(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c1 = nn.Conv2d(1, width, 3, padding=1)
        self.c2 = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.c3 = nn.Conv2d(2 * width, 2 * width, 3, padding=1)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.c1(x)), 2)
        x = nn.functional.max_pool2d(torch.relu(self.c2(x)), 2)
        return torch.relu(self.c3(x)).flatten(2).mean(2)


class Probe(nn.Module):
    def __init__(self, dim, classes, mean, std):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.mlp = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, classes))

    def forward(self, z):
        return self.mlp((z - self.mean) / self.std)


@torch.no_grad()
def features(folder, part, images, backbone):
    path = folder / "cache" / f"{part}.pt"
    if path.exists():
        return torch.load(path)["features"]
    backbone.eval()
    z = torch.cat([backbone(chunk) for chunk in images.split(256)])
    path.parent.mkdir(exist_ok=True)
    torch.save({"features": z}, path)
    return z


def accuracy(model, z, y):
    model.eval()
    with torch.no_grad():
        return (model(z).argmax(1) == y).float().mean().item()


def main(folder):
    cfg = yaml.safe_load((folder / "probe.yaml").read_text())
    torch.manual_seed(cfg["seed"])
    backbone = Backbone(cfg["width"])
    backbone.load_state_dict(torch.load(folder / "backbone.pt"))
    z, y = {}, {}
    for part in ("train", "valid", "test"):
        raw = np.load(folder / f"{part}.npz")
        images = torch.from_numpy(raw["images"]).float().unsqueeze(1) / 255.0
        z[part] = features(folder, part, images, backbone)
        y[part] = torch.from_numpy(raw["species"]).long()

    model = Probe(z["train"].shape[1], cfg["classes"], z["train"].mean(0), z["train"].std(0) + 1e-6)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=1e-3)
    best, state = 0.0, None
    for epoch in range(cfg["epochs"]):
        model.train()
        total = 0.0
        for rows in torch.randperm(len(y["train"])).split(cfg["batch_size"]):
            loss = nn.functional.cross_entropy(model(z["train"][rows]), y["train"][rows])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(rows)
        valid = accuracy(model, z["valid"], y["valid"])
        if valid > best:
            best, state = valid, {k: v.clone() for k, v in model.state_dict().items()}
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1} loss {total / len(y['train']):.4f} valid {valid:.4f}")
    model.load_state_dict(state)
    print(f"test accuracy {accuracy(model, z['test'], y['test']):.4f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=Path)
    main(ap.parse_args().folder)
