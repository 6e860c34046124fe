# Weld seam inspection: pretrain on line A (6 defect kinds), adapt the head to line B (4 kinds).
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 16


def draw_seam(kind, rng, noise):
    img = rng.normal(0, noise, (SIZE, SIZE))
    img[6:10] += 0.6
    r, c = rng.integers(3, 12), rng.integers(3, 12)
    if kind == 1:
        img[r - 1:r + 2, c - 1:c + 2] += 2.0
    elif kind == 2:
        img[r, 2:14] -= 2.0
    elif kind == 3:
        img[2:14, c] -= 2.0
    elif kind == 4:
        for k in range(-3, 4):
            img[np.clip(r + k, 0, 15), np.clip(c + k, 0, 15)] += 2.0
    elif kind == 5:
        img[r - 2:r + 3, c - 2:c + 3] -= 1.2
    return img


def make_line(kinds, n, noise, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(kinds), n)
    x = np.stack([draw_seam(kinds[k], rng, noise) for k in y])
    return torch.tensor(x, dtype=torch.float32).unsqueeze(1), torch.tensor(y)


class SeamNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(24 * 16, 48), nn.ReLU(),
        )
        self.head = nn.Linear(48, n_classes)

    def forward(self, x):
        return self.head(self.backbone(x))


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def fit(model, opt, x, y, xv, yv, epochs, tag, bs=32):
    for ep in range(epochs):
        model.train()
        order = torch.randperm(len(x))
        losses = []
        for i in range(0, len(x), bs):
            idx = order[i:i + bs]
            loss = F.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print(f"[{tag}] epoch {ep} loss {np.mean(losses):.3f} val acc {accuracy(model, xv, yv):.3f}")


def main():
    torch.manual_seed(0)
    xa, ya = make_line([0, 1, 2, 3, 4, 5], 1200, 0.30, seed=1)
    xav, yav = make_line([0, 1, 2, 3, 4, 5], 400, 0.30, seed=2)
    xb, yb = make_line([0, 1, 3, 5], 480, 0.40, seed=3)
    xbv, ybv = make_line([0, 1, 3, 5], 400, 0.40, seed=4)

    model = SeamNet(6)
    fit(model, torch.optim.Adam(model.parameters(), lr=2e-3), xa, ya, xav, yav, 6, "line A")

    # line B: same seam geometry, other catalogue of defects
    for p in model.backbone[:3].parameters():
        p.requires_grad_(False)
    opt = torch.optim.Adam([
        {"params": model.backbone[3:].parameters(), "lr": 1e-5},
        {"params": model.head.parameters(), "lr": 5e-3},
    ])
    model.head = nn.Linear(48, 4)
    fit(model, opt, xb, yb, xbv, ybv, 10, "line B")


if __name__ == "__main__":
    main()
