"""Hairline cracks in porcelain from the sound of a tap: pretrain on plates of one kiln, adapt to vases of another."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

RATE, N = 8000, 256
PLATE_STATES = ["whole", "rim_crack", "foot_crack", "glaze_crack"]
VASE_STATES = ["whole", "neck_crack", "belly_crack", "base_crack", "handle_loose"]


def tap(rng, n, states, base_hz, table):
    """Sum of decaying partials; a crack moves some partials and damps others."""
    y = rng.integers(0, len(states), n)
    t = np.arange(N) / RATE
    size = rng.normal(1, 0.03, (n, 1))
    wave = np.zeros((n, N))
    for k, ratio in enumerate([1.0, 1.62, 2.41, 3.3]):
        shift, damp = table[y, k, 0][:, None], table[y, k, 1][:, None]
        f = base_hz * ratio / size * (1 + shift)
        amp = rng.uniform(0.5, 1.0, (n, 1)) / (1 + 0.5 * k)
        wave += amp * np.exp(-t * 60 * damp) * np.sin(2 * np.pi * f * t + rng.uniform(0, 2 * np.pi, (n, 1)))
    wave += rng.normal(0, 0.12, wave.shape)
    wave /= wave.std(1, keepdims=True)
    return torch.tensor(wave[:, None], dtype=torch.float32), torch.from_numpy(y)


def crack_table(rng, n_states):
    table = np.stack([rng.normal(0, 0.07, (n_states, 4)), np.exp(rng.normal(0, 0.7, (n_states, 4)))], -1)
    table[0] = [0.0, 1.0]
    return table


class Stage(nn.Module):
    def __init__(self, a, b, k):
        super().__init__()
        self.conv = nn.Conv1d(a, b, k, stride=2, padding=k // 2)
        self.bn = nn.BatchNorm1d(b)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class TapNet(nn.Module):
    def __init__(self, n_out):
        super().__init__()
        self.ear = nn.Sequential(Stage(1, 24, 33), Stage(24, 32, 9))
        self.late = nn.Sequential(Stage(32, 48, 9), Stage(48, 48, 5))
        self.bridge = nn.Linear(96, 48)
        self.head = nn.Linear(48, n_out)

    def forward(self, x):
        h = self.late(self.ear(x))
        h = torch.cat([h.mean(2), h.amax(2)], 1)
        return self.head(F.relu(self.bridge(h)))


def fit(model, data, epochs, lr, label):
    loader = DataLoader(TensorDataset(*data), batch_size=32, shuffle=True)
    weights = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(weights, lr=lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for epoch in range(1, epochs + 1):
        model.train()
        total = 0.0
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        sched.step()
        if epoch % 5 == 0:
            print(f"{label} epoch {epoch:2d}  loss {total / len(loader):.3f}")


def accuracy(model, data):
    model.eval()
    with torch.no_grad():
        return (model(data[0]).argmax(1) == data[1]).float().mean().item()


def main():
    torch.manual_seed(6)
    rng = np.random.default_rng(6)
    plates, vases = crack_table(rng, len(PLATE_STATES)), crack_table(rng, len(VASE_STATES))
    plate_train = tap(rng, 1200, PLATE_STATES, 620, plates)
    plate_val = tap(rng, 400, PLATE_STATES, 620, plates)
    vase_train = tap(rng, 640, VASE_STATES, 470, vases)
    vase_val = tap(rng, 600, VASE_STATES, 470, vases)

    model = TapNet(len(PLATE_STATES))
    fit(model, plate_train, 8, 2e-3, "plates")
    print(f"plates val accuracy {accuracy(model, plate_val):.3f}")

    model.head = nn.Linear(48, len(VASE_STATES))
    tuned = (
        "bridge.",
        "late."
        "head.",
    )
    for name, p in model.named_parameters():
        p.requires_grad_(name.startswith(tuned))
    fit(model, vase_train, 16, 2e-3, "vases")
    print(f"vases val accuracy {accuracy(model, vase_val):.3f}")


if __name__ == "__main__":
    main()
