"""Continue training the beat classifier from the last checkpoint of the previous job."""
import json
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

BEATS = ["N", "V", "A", "L", "R"]


def bump(t, centre, width, height):
    return height * torch.exp(-0.5 * ((t - centre) / width) ** 2)


def beats(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(len(BEATS), (n,), generator=g)
    t = torch.linspace(-0.35, 0.45, 128)[None]
    jit = lambda s: s * torch.randn(n, 1, generator=g)
    is_ = lambda k: (y == k)[:, None].float()
    p_wave = bump(t, -0.18 - 0.05 * is_(2) + jit(0.01), 0.025, 0.15 * (1 - is_(1)) + jit(0.03))
    width = 0.02 + 0.035 * is_(1) + 0.02 * is_(3) + 0.016 * is_(4)
    qrs = bump(t, jit(0.012), width, 1 + jit(0.12))
    second = bump(t, 0.05 + jit(0.006), 0.018, 0.45 * is_(4) - 0.25 * is_(3))
    t_wave = bump(t, 0.24 + jit(0.02), 0.05, 0.3 - 0.55 * is_(1) + jit(0.05))
    x = p_wave + qrs + second + t_wave + 0.09 * torch.randn(n, 128, generator=g) + jit(0.15)
    return ((x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True))[:, None], y


class BeatNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c1 = nn.Conv1d(1, width, 9, stride=2, padding=4)
        self.c2 = nn.Conv1d(width, 2 * width, 7, stride=2, padding=3)
        self.fc = nn.Linear(2 * width * 8, len(BEATS))

    def forward(self, x):
        h = F.relu(self.c2(F.relu(self.c1(x))))
        return self.fc(F.adaptive_avg_pool1d(h, 8).flatten(1))


def build(cfg):
    model = BeatNet(cfg["width"])
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])
    return model, opt


@torch.no_grad()
def macro_f1(model, x, y):
    model.eval()
    pred = model(x).argmax(1)
    scores = []
    for k in range(len(BEATS)):
        tp = ((pred == k) & (y == k)).sum().item()
        scores.append(2 * tp / max(1, (pred == k).sum().item() + (y == k).sum().item()))
    return sum(scores) / len(scores)


def train_epoch(model, opt, x, y, batch):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(x)).split(batch):
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    return total / len(x)


def main(folder):
    with open(os.path.join(folder, "config.json")) as f:
        cfg = json.load(f)
    torch.manual_seed(cfg["seed"])
    x, y = beats(1200, 1)
    xv, yv = beats(500, 2)
    model, opt = build(cfg)
    state = torch.load(os.path.join(folder, "last.pt"))
    model.load_state_dict(state["model"])
    opt.load_state_dict(state["optimizer"])
    print(f"resumed after epoch {state['epoch']}, macro F1 {macro_f1(model, xv, yv):.3f}")
    for epoch in range(state["epoch"] + 1, state["epoch"] + 1 + cfg["more_epochs"]):
        loss = train_epoch(model, opt, x, y, cfg["batch_size"])
        print(f"epoch {epoch} loss {loss:.4f} macro F1 {macro_f1(model, xv, yv):.4f}")
    print(f"validation macro F1 {macro_f1(model, xv, yv):.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
