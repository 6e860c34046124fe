"""Instrument tagging: warm up the classifier on a pretext encoder, then fine-tune end to end."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class TagConfig:
    clips: int = 900
    valid: int = 250
    bins: int = 96
    tags: int = 5
    warmup_epochs: int = 4
    finetune_epochs: int = 6
    head_lr: float = 3e-3
    backbone_lr: float = 1.5e-3
    batch_size: int = 32
    seed: int = 9


def synth_clips(n, cfg, rng):
    """Harmonic spectra; each tag is a spectral envelope, several may sound at once."""
    k = np.arange(cfg.bins)
    x = np.zeros((n, cfg.bins), np.float32)
    y = (rng.random((n, cfg.tags)) < 0.3).astype(np.float32)
    for i in range(n):
        for tag in np.flatnonzero(y[i]):
            f0 = rng.integers(4, 12)
            for h in range(1, 9):
                if f0 * h >= cfg.bins or (tag % 2 == 1 and h % 2 == 0):
                    continue
                x[i] += h ** -(0.3 + 0.35 * tag) * np.exp(-0.5 * ((k - f0 * h) / 0.9) ** 2)
            x[i] += 0.5 * np.exp(-0.5 * ((k - 12 - 17 * tag) / 3.0) ** 2)
        x[i] += 0.5 * rng.random(cfg.bins)
    return torch.from_numpy(np.log1p(4 * x)), torch.from_numpy(y)


def make_encoder():
    return nn.Sequential(nn.Conv1d(1, 16, 7, stride=2, padding=3), nn.ReLU(),
                         nn.Conv1d(16, 16, 5, stride=2, padding=2), nn.ReLU(),
                         nn.Flatten(), nn.Linear(16 * 24, 32), nn.ReLU())


class Tagger(nn.Module):
    def __init__(self, backbone, tags):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(32, tags)

    def forward(self, x):
        return self.head(self.backbone(x.unsqueeze(1)))


def pretext_training(encoder, x, cfg):
    """Predict the overall loudness of a clip."""
    probe = nn.Linear(32, 1)
    opt = torch.optim.Adam([*encoder.parameters(), *probe.parameters()], lr=2e-3)
    loudness = x.mean(1)
    loudness = (loudness - loudness.mean()) / loudness.std()
    for idx in torch.randperm(len(x)).split(cfg.batch_size):
        loss = nn.functional.mse_loss(probe(encoder(x[idx].unsqueeze(1))).squeeze(1), loudness[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"pretext loss {loss.item():.3f}")


def run_epoch(model, opt, x, y, cfg):
    model.train()
    losses = []
    for idx in torch.randperm(len(x)).split(cfg.batch_size):
        loss = nn.functional.binary_cross_entropy_with_logits(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return np.mean(losses)


@torch.no_grad()
def micro_f1(model, x, y):
    model.eval()
    p = (model(x) > 0).float()
    return (2 * (p * y).sum() / (p.sum() + y.sum()).clamp(min=1)).item()


def main():
    cfg = TagConfig()
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    x, y = synth_clips(cfg.clips, cfg, rng)
    x_va, y_va = synth_clips(cfg.valid, cfg, rng)
    mu, sd = x.mean(), x.std()
    x, x_va = (x - mu) / sd, (x_va - mu) / sd

    encoder = make_encoder()
    pretext_training(encoder, x, cfg)
    model = Tagger(encoder, cfg.tags)

    for p in model.backbone.parameters():
        p.requires_grad = False
    opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=cfg.head_lr)
    for epoch in range(cfg.warmup_epochs):
        loss = run_epoch(model, opt, x, y, cfg)
        print(f"warmup {epoch + 1} bce {loss:.4f} val F1 {micro_f1(model, x_va, y_va):.3f}")

    for p in model.backbone.parameters():
        p.requires_grad = True
    opt.add_param_group({"params": list(model.backbone.parameters()), "lr": cfg.backbone_lr})
    for epoch in range(cfg.finetune_epochs):
        loss = run_epoch(model, opt, x, y, cfg)
        print(f"finetune {epoch + 1} bce {loss:.4f} val F1 {micro_f1(model, x_va, y_va):.3f}")


if __name__ == "__main__":
    main()
