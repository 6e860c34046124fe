# bat species from echolocation calls: small CNN on spectrogram snippets, averaged weights for the final model
import copy
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CFG = dict(seed=21, n_train=1400, n_val=500, freq=24, frames=32, epochs=12, batch=40, lr=3e-3, ema=0.98)
SPECIES = ["P. pipistrellus", "P. pygmaeus", "M. daubentonii", "N. noctula", "E. serotinus"]
# start frequency, end frequency (rows), call length (frames), share of the constant-frequency tail
CALLS = [(17, 10, 9, 0.5), (19, 12, 9, 0.5), (21, 8, 6, 0.1), (8, 5, 14, 0.7), (12, 6, 11, 0.4)]


def spectrogram(species, rng):
    f0, f1, length, tail = CALLS[species]
    f0, f1 = f0 + rng.normal(0, 0.8), f1 + rng.normal(0, 0.7)
    length = max(4, int(round(length + rng.normal(0, 1.2))))
    spec = rng.gamma(2.0, 1.5, (CFG["freq"], CFG["frames"]))
    start = rng.integers(1, CFG["frames"] - length)
    rows = np.arange(CFG["freq"])
    amp = rng.uniform(10, 30)
    for k in range(length):
        u = k / (length - 1)
        f = f1 + (f0 - f1) * max(0.0, 1.0 - u / (1.0 - tail + 1e-6)) ** 1.5
        env = np.sin(np.pi * (k + 0.7) / (length + 0.4))
        spec[:, start + k] += amp * env * np.exp(-0.5 * ((rows - f) / 0.9) ** 2)
    if rng.random() < 0.4:                       # insects: a steady band
        spec[rng.integers(0, 5)] += rng.uniform(3, 9)
    return 10.0 * np.log10(spec)


def dataset(n, rng):
    y = rng.integers(0, len(SPECIES), n)
    x = np.stack([spectrogram(k, rng) for k in y]).astype(np.float32)
    return torch.from_numpy(x)[:, None], torch.from_numpy(y)


class ConvBlock(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(), nn.MaxPool2d(2))


class CallNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.level = nn.BatchNorm2d(1)            # dB scale of the detector
        self.features = nn.Sequential(ConvBlock(1, 12), ConvBlock(12, 24), ConvBlock(24, 32))
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(32 * 3, n_classes)

    def forward(self, x):
        h = self.features(self.level(x)).mean(dim=3)         # keep frequency, average over time
        return self.fc(self.drop(h.flatten(1)))


class WeightAverage:
    def __init__(self, model, decay):
        self.model = copy.deepcopy(model).eval()
        self.decay = decay
        self.n = 0
        for p in self.model.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        self.n += 1
        d = min(self.decay, (1 + self.n) / (10 + self.n))
        source = model.state_dict()
        for name, avg in self.model.state_dict().items():
            if avg.is_floating_point():
                avg.lerp_(source[name], 1.0 - d)


def score(model, x, y):
    model.eval()
    with torch.no_grad():
        logits = model(x)
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def train():
    rng = np.random.default_rng(CFG["seed"])
    torch.manual_seed(CFG["seed"])
    x, y = dataset(CFG["n_train"], rng)
    xv, yv = dataset(CFG["n_val"], rng)

    model = CallNet(len(SPECIES))
    ema = WeightAverage(model, CFG["ema"])
    opt = torch.optim.AdamW(model.parameters(), lr=CFG["lr"], weight_decay=1e-3)
    t0 = time.time()
    for epoch in range(CFG["epochs"]):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(CFG["batch"]):
            loss = F.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            ema.update(model)
            total += loss.item() * len(idx)
        if epoch % 3 == 2:
            print(f"epoch {epoch + 1:2d}  train loss {total / len(x):.4f}  {time.time() - t0:.1f}s")
    loss, acc = score(ema.model, xv, yv)
    print(f"validation, averaged weights: loss {loss:.4f}  accuracy {acc:.3f}")


if __name__ == "__main__":
    train()
