"""Fine-tunes a leaf encoder on a handful of labelled patches from one orchard."""
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn as nn


def load_part(folder, part, opts, classes=None):
    images = np.load(folder / f"{part}_images.npy")
    labels = (folder / f"{part}_labels.txt").read_text().splitlines()
    classes = classes or sorted(set(labels))
    x = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    return (x - opts.mean) / opts.std, torch.tensor([classes.index(v) for v in labels]), classes


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))


class LeafNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.encoder = nn.Sequential(block(3, 16), block(16, 32), block(32, 64))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(64, n_classes))

    def forward(self, x):
        return self.classifier(self.encoder(x).mean((2, 3)))


def build(folder, opts, n_classes):
    """Encoder from the checkpoint, new classifier (the checkpoint's own head is for other classes)."""
    net = LeafNet(n_classes)
    ckpt = torch.load(folder / opts.checkpoint, map_location="cpu", weights_only=True)
    net.load_state_dict(ckpt["state_dict"], strict=False)
    print(f"loaded {opts.checkpoint} (epoch {ckpt['epoch']})")
    return net


def flip(x):
    """Random exchange of the two axes and half-turn; both keep the direction of streaks."""
    if torch.rand(()) < 0.5:
        x = x.flip(2, 3)
    if torch.rand(()) < 0.5:
        x = x.transpose(2, 3)
    return x


@torch.no_grad()
def test(net, x, y):
    net.eval()
    out = net(x)
    return nn.functional.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


def main(folder):
    opts = SimpleNamespace(**json.loads((folder / "options.json").read_text()))
    torch.manual_seed(opts.seed)
    x, y, classes = load_part(folder, "train", opts)
    xv, yv, _ = load_part(folder, "val", opts, classes)
    print(f"{len(x)} training patches, {len(xv)} validation patches, classes: {', '.join(classes)}")

    net = build(folder, opts, len(classes))
    groups = [
        {"params": net.encoder.parameters(), "lr": opts.lr_encoder},
        {"params": net.classifier.parameters(), "lr": opts.lr_head},
    ]
    opt = torch.optim.AdamW(groups, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, opts.epochs)
    for epoch in range(opts.epochs):
        net.train()
        running = 0.0
        for idx in torch.randperm(len(x)).split(opts.batch_size):
            loss = nn.functional.cross_entropy(net(flip(x[idx])), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item() * len(idx)
        sched.step()
        if epoch % 4 == 3:
            vl, va = test(net, xv, yv)
            print(f"epoch {epoch + 1:2d}: loss {running / len(x):.3f}, validation loss {vl:.3f}, accuracy {va:.3f}")


main(Path(sys.argv[1]))
