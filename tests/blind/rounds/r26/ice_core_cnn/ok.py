"""Sort 1 m segments of an ice core by the event they hold, from conductivity (ECM) and dust (laser scatter) profiles."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

EVENTS = ["quiet", "eruption", "fire", "melt", "storm"]
POINTS = 120


def segment(rng, event):
    """Two channels at 8 mm spacing: log conductivity and log dust, with the yearly cycle below the event."""
    z = np.arange(POINTS)
    cycle = np.sin(2 * np.pi * z / rng.uniform(18, 34) + rng.uniform(0, 6.3))
    ecm = 0.5 * cycle + 0.25 * rng.normal(size=POINTS)
    dust = 0.5 * np.roll(cycle, 5) + 0.25 * rng.normal(size=POINTS)
    c, a = rng.uniform(20, POINTS - 20), rng.uniform(0.5, 1.1)
    if event == "eruption":
        tail = np.where(z >= c, np.exp(-(z - c) / rng.uniform(6, 12)), 0)
        ecm += a * tail
        dust += 0.4 * a * np.exp(-0.5 * ((z - c) / 2) ** 2)
    elif event == "fire":
        bump = np.exp(-0.5 * ((z - c) / rng.uniform(3, 6)) ** 2)
        ecm -= 0.7 * a * bump
        dust += 0.7 * a * bump
    elif event == "melt":
        w = rng.uniform(5, 11)
        inside = np.abs(z - c) < w
        ecm[inside] = -0.6 + 0.1 * rng.normal(size=inside.sum())
        dust[inside] = -0.6 + 0.1 * rng.normal(size=inside.sum())
    elif event == "storm":
        bump = np.exp(-0.5 * ((z - c) / rng.uniform(6, 10)) ** 2)
        ecm += 0.8 * a * bump
        dust += 0.8 * a * bump
    return np.stack([ecm, dust])


def make_core(n, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(EVENTS), n)
    profiles = np.stack([segment(rng, EVENTS[k]) for k in labels])
    return torch.tensor(profiles, dtype=torch.float32), torch.tensor(labels)


class CoreSegments(Dataset):
    def __init__(self, profiles, labels, augment, seed=0):
        self.profiles = profiles
        self.labels = labels
        self.augment = augment
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        x = self.profiles[i].clone()
        if self.augment:
            width = int(self.rng.integers(10, 36))
            top = int(self.rng.integers(0, POINTS - width))
            x[:, top:top + width] = 0.0
            x *= float(np.exp(0.2 * self.rng.normal()))
        return x, self.labels[i]


class EventNet(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        blocks, last = [], 2
        for width in (channels, 2 * channels, 2 * channels):
            blocks += [nn.Conv1d(last, width, 7, padding=3, bias=False), nn.BatchNorm1d(width), nn.ReLU(), nn.MaxPool1d(2)]
            last = width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(2 * last, len(EVENTS))

    def forward(self, x):
        h = self.blocks(x)
        return self.head(torch.cat([h.mean(2), h.amax(2)], 1))


def validate(model, loader):
    model.eval()
    hits = loss = count = 0
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            loss += nn.functional.cross_entropy(out, y, reduction="sum").item()
            hits += (out.argmax(1) == y).sum().item()
            count += len(y)
    return loss / count, hits / count


def main():
    torch.manual_seed(31)
    profiles, labels = make_core(1200, 31)
    mean, std = profiles[:900].mean((0, 2), keepdim=True), profiles[:900].std((0, 2), keepdim=True)
    profiles = (profiles - mean) / std
    train = DataLoader(CoreSegments(profiles[:900], labels[:900], True, 1), batch_size=32, shuffle=True)
    val = DataLoader(CoreSegments(profiles[900:], labels[900:], False), batch_size=200)
    model = EventNet()
    epochs = 14
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs * len(train))
    for epoch in range(1, epochs + 1):
        model.train()
        total = 0.0
        for x, y in train:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item()
        if epoch % 2 == 0:
            val_loss, accuracy = validate(model, val)
            print(f"epoch {epoch:2d}: train loss {total / len(train):.3f}, val loss {val_loss:.3f}, val accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
