"""Self-training in rounds: label the pool with the current model, keep confident rows, train again."""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ROUNDS, EPOCHS, BATCH = 3, 12, 32
CONFIDENCE, PSEUDO_WEIGHT, N_CLASSES = 0.9, 0.5, 10


class SelfTrainer:
    def __init__(self, folder):
        lab = np.load(folder / "labelled.npz")
        val = np.load(folder / "valid.npz")
        raw_x, raw_u, raw_v = lab["x"], np.load(folder / "unlabelled.npz")["x"], val["x"]
        everything = np.concatenate([raw_x, raw_u]).astype(np.float32)
        self.mean, self.std = everything.mean(0), everything.std(0) + 10.0
        self.x, self.u, self.vx = map(self.scale, (raw_x, raw_u, raw_v))
        self.y, self.vy = torch.from_numpy(lab["y"]), torch.from_numpy(val["y"])
        print(f"{len(self.x)} labelled, {len(self.u)} unlabelled, {len(self.vx)} validation rows")

    def scale(self, a):
        return torch.from_numpy((a.astype(np.float32) - self.mean) / self.std)

    def new_model(self):
        return nn.Sequential(nn.Linear(49, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, N_CLASSES))

    def fit(self, x, y, w):
        model = self.new_model()
        opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
        model.train()
        for _ in range(EPOCHS):
            total = 0.0
            for idx in torch.randperm(len(y)).split(BATCH):
                loss = F.cross_entropy(model(x[idx]), y[idx], reduction="none")
                loss = (loss * w[idx]).sum() / w[idx].sum()
                opt.zero_grad()
                loss.backward()
                opt.step()
                total += loss.item() * len(idx)
        return model, total / len(y)

    @torch.no_grad()
    def predict(self, model, x):
        model.eval()
        return model(x).softmax(1)

    def run(self):
        model, loss = self.fit(self.x, self.y, torch.ones(len(self.y)))
        self.report("supervised", model, loss)
        for r in range(ROUNDS):
            conf, label = self.predict(model, self.u).max(1)
            keep = conf > CONFIDENCE
            x = torch.cat([self.x, self.u[keep]])
            y = torch.cat([self.y, label[keep]])
            w = torch.cat([torch.ones(len(self.y)), torch.full((int(keep.sum()),), PSEUDO_WEIGHT)])
            model, loss = self.fit(x, y, w)
            self.report(f"round {r}, {int(keep.sum())} pseudo-labels", model, loss)
        return model

    def report(self, name, model, loss):
        prob = self.predict(model, self.vx)
        vloss = F.nll_loss(prob.clamp(min=1e-8).log(), self.vy).item()
        acc = (prob.argmax(1) == self.vy).float().mean().item()
        print(f"{name}: loss {loss:.3f} valid loss {vloss:.3f} valid accuracy {acc:.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    SelfTrainer(Path(sys.argv[1])).run()
