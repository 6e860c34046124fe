"""Cloud type from 5-channel satellite brightness-temperature series; evaluated with averaged weights."""
import copy

import numpy as np
import torch
import torch.nn as nn

CHANNELS, STEPS, CLASSES = 5, 24, 6
CFG = dict(epochs=14, batch=64, lr=3e-3, ema=0.97, seed=31)


def load_series(n, rng):
    proto = np.random.default_rng(4)
    base = proto.normal(250, 14, (CLASSES, CHANNELS))
    swing = proto.normal(0, 6, (CLASSES, CHANNELS))
    phase = proto.uniform(0, 2 * np.pi, (CLASSES, CHANNELS))
    y = rng.integers(0, CLASSES, n)
    t = np.arange(STEPS) / STEPS * 2 * np.pi
    x = base[y][:, :, None] + swing[y][:, :, None] * np.sin(t[None, None] + phase[y][:, :, None])
    x += rng.normal(0, 12, (n, CHANNELS, 1)) + rng.normal(0, 8, x.shape)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def scale_kelvin(x, lo=180.0, hi=320.0):
    """Brightness temperature to the unit range."""
    return (x - lo) / (hi - lo)


class CloudNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(CHANNELS, 24, 5, padding=2), nn.BatchNorm1d(24), nn.ReLU())
        self.body = nn.Sequential(nn.Conv1d(24, 24, 3, padding=1), nn.BatchNorm1d(24), nn.ReLU())
        self.head = nn.Linear(24, CLASSES)

    def forward(self, x):
        h = self.stem(x)
        return self.head((h + self.body(h)).mean(-1))


class WeightAverage:
    def __init__(self, model, decay):
        self.decay = decay
        self.updates = 0
        self.model = copy.deepcopy(model).eval()
        for p in self.model.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        d = min(self.decay, (1 + self.updates) / (10 + self.updates))
        for avg, p in zip(self.model.parameters(), model.parameters()):
            avg.mul_(d).add_(p, alpha=1 - d)
        for avg, b in zip(self.model.buffers(), model.buffers()):
            avg.copy_(b)


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    logits = model(x)
    return nn.functional.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def train(cfg):
    torch.manual_seed(cfg["seed"])
    rng = np.random.default_rng(cfg["seed"])
    x_tr, y_tr = load_series(1500, rng)
    x_va, y_va = load_series(500, rng)
    x_tr, x_va = scale_kelvin(x_tr), scale_kelvin(x_va)

    model = CloudNet()
    average = WeightAverage(model, cfg["ema"])
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=0.01)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(cfg["epochs"]):
        model.train()
        order = torch.randperm(len(x_tr))
        total = 0.0
        for idx in order.split(cfg["batch"]):
            opt.zero_grad()
            loss = loss_fn(model(x_tr[idx]), y_tr[idx])
            loss.backward()
            opt.step()
            average.update(model)
            total += loss.item() * len(idx)
        vl, va = evaluate(average.model, x_va, y_va)
        print(f"epoch {epoch:2d}  train {total / len(x_tr):.4f}  averaged model: valid {vl:.4f} acc {va:.4f}")
    return average.model


if __name__ == "__main__":
    train(CFG)
