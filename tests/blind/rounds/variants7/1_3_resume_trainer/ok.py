import os
import tempfile
from dataclasses import dataclass, asdict

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class NetConfig:
    n_in: int = 7
    width: int = 64
    depth: int = 2
    dropout: float = 0.05


class StrengthNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        layers, d = [], cfg.n_in
        for _ in range(cfg.depth):
            layers += [nn.Linear(d, cfg.width), nn.SiLU(), nn.Dropout(cfg.dropout)]
            d = cfg.width
        self.body = nn.Sequential(*layers)
        self.out = nn.Linear(d, 1)

    def forward(self, x):
        return self.out(self.body(x)).squeeze(1)


def concrete_table(n=2400, seed=11):
    rng = np.random.default_rng(seed)
    cement = rng.uniform(120, 520, n)
    slag = np.clip(rng.normal(70, 60, n), 0, None)
    water = 150 + 0.09 * cement + rng.normal(0, 15, n)
    plast = np.clip(14 - 0.05 * water + rng.normal(0, 2, n) + 2, 0, None)
    coarse = rng.normal(970, 75, n)
    fine = 1750 - coarse + rng.normal(0, 40, n)
    age = rng.choice([3, 7, 14, 28, 56, 90], n)
    ratio = water / (cement + 0.6 * slag)
    strength = 28 * ratio ** -0.9 * np.log1p(age) / 3.4 + 0.8 * plast - 0.01 * (fine - 780) + rng.normal(0, 2.5, n)
    return pd.DataFrame(dict(cement=cement, slag=slag, water=water, plast=plast, coarse=coarse,
                             fine=fine, age=np.log1p(age), strength=strength))


class Trainer:
    def __init__(self, cfg, loader, lr=1e-3):
        self.cfg = cfg
        self.loader = loader
        self.lr = lr
        self.epoch = 0
        self.model = StrengthNet(cfg)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=1e-4)

    def save(self, path):
        torch.save({"cfg": asdict(self.cfg), "epoch": self.epoch, "weights": self.model.state_dict(),
                    "optim": self.optimizer.state_dict()}, path)

    def restore(self, path):
        blob = torch.load(path, weights_only=True)
        self.cfg = NetConfig(**blob["cfg"])
        self.model = StrengthNet(self.cfg)
        self.model.load_state_dict(blob["weights"])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.lr, weight_decay=1e-4)
        self.optimizer.load_state_dict(blob["optim"])
        self.epoch = blob["epoch"]

    def run(self, until):
        while self.epoch < until:
            self.model.train()
            total = 0.0
            for x, y in self.loader:
                self.model.zero_grad()
                loss = nn.functional.mse_loss(self.model(x), y)
                loss.backward()
                self.optimizer.step()
                total += loss.item() * len(x)
            self.epoch += 1
            if self.epoch % 4 == 0:
                print(f"[{self.epoch:3d}] train mse {total / len(self.loader.dataset):.4f}")

    @torch.no_grad()
    def predict(self, x):
        self.model.eval()
        return self.model(x)


def main():
    torch.manual_seed(0)
    df = concrete_table().sample(frac=1.0, random_state=1).reset_index(drop=True)
    train, test = df[:1900], df[1900:]
    mu, sd = train.mean(), train.std()
    as_tensors = lambda d: torch.tensor(((d - mu) / sd).to_numpy(), dtype=torch.float32)
    tr, te = as_tensors(train), as_tensors(test)
    loader = DataLoader(TensorDataset(tr[:, :-1], tr[:, -1]), batch_size=64, shuffle=True)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trainer.pt")
        first = Trainer(NetConfig(), loader)
        first.run(until=3)
        first.save(path)
        second = Trainer(NetConfig(), loader)
        second.restore(path)
        second.run(until=32)
    rmse = ((second.predict(te[:, :-1]) - te[:, -1]) ** 2).mean().sqrt().item() * sd["strength"]
    print(f"test_rmse={rmse:.4f}")


if __name__ == "__main__":
    main()
