"""Parcel records: one trunk, two heads (service class, gross weight).

usage: train.py FOLDER   (FOLDER/settings.json, FOLDER/parcels.npz)
"""
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class TwoHeads(nn.Module):
    def __init__(self, d_in, width, n_classes):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(d_in, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.service = nn.Linear(width, n_classes)
        self.weight = nn.Linear(width, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.service(h), self.weight(h).squeeze(1)


class Runner:
    def __init__(self, folder):
        self.cfg = json.loads((folder / "settings.json").read_text())
        torch.manual_seed(self.cfg["seed"])
        z = np.load(folder / "parcels.npz")
        x = torch.from_numpy(z["features"]).float()
        data = TensorDataset(x, torch.from_numpy(z["service"]).long(), torch.from_numpy(z["weight"]).float())
        n = len(data)
        gen = torch.Generator().manual_seed(0)
        tr, va, te = random_split(data, [int(0.7 * n), int(0.1 * n), n - int(0.7 * n) - int(0.1 * n)], generator=gen)
        mean, std = x[tr.indices].mean(0), x[tr.indices].std(0)
        x.sub_(mean).div_(std)
        self.train_loader = DataLoader(tr, batch_size=self.cfg["batch"], shuffle=True)
        self.valid_loader, self.test_loader = DataLoader(va, batch_size=500), DataLoader(te, batch_size=500)
        self.model = TwoHeads(x.shape[1], self.cfg["width"], int(z["service"].max()) + 1)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=self.cfg["lr"], momentum=0.9)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, self.cfg["epochs"])
        self.ce, self.reg = nn.CrossEntropyLoss(), nn.SmoothL1Loss()

    def train_epoch(self):
        self.model.train()
        sums = np.zeros(2)
        for x, s, w in self.train_loader:
            ps, pw = self.model(x)
            l_s, l_w = self.ce(ps, s), self.reg(pw, w)
            loss = self.cfg["w_service"] * l_s + self.cfg["w_weight"] * l_w
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg["clip"])
            self.opt.step()
            sums += [l_s.item(), l_w.item()]
        self.sched.step()
        return sums / len(self.train_loader)

    @torch.no_grad()
    def score(self, loader):
        self.model.eval()
        s, w, ps, pw = [], [], [], []
        for x, a, b in loader:
            p, q = self.model(x)
            s.append(a), w.append(b), ps.append(p.argmax(1)), pw.append(q)
        s, w, ps, pw = map(torch.cat, (s, w, ps, pw))
        r2 = 1 - ((pw - w) ** 2).sum() / ((w - w.mean()) ** 2).sum()
        return (s == ps).float().mean().item(), r2.item()

    def run(self):
        for epoch in range(self.cfg["epochs"]):
            l_s, l_w = self.train_epoch()
            acc, r2 = self.score(self.valid_loader)
            print(f"epoch {epoch:2d} service {l_s:.3f} weight {l_w:.3f} | valid acc {acc:.4f} R2 {r2:.3f}")
        acc, r2 = self.score(self.test_loader)
        print(f"test service accuracy {acc:.4f} weight R2 {r2:.4f}")


if __name__ == "__main__":
    Runner(Path(sys.argv[1])).run()
