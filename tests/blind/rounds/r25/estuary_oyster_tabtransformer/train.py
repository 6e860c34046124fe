import json
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    width: int = 24
    heads: int = 3
    layers: int = 2
    batch: int = 128
    epochs: int = 30
    lr: float = 2e-3
    seed: int = 12


FEATURES = ("water_temp", "salinity_psu", "chlorophyll_ug_l", "current_cm_s", "bag_density", "shell_mm",
            "air_exposure_pct", "turbidity_ntu")


def read_jsonl(path):
    x, y = [], []
    for line in Path(path).read_text().splitlines():
        rec = json.loads(line)
        x.append([rec[f] for f in FEATURES])
        y.append(rec["growth_mm"])
    return torch.tensor(x), torch.tensor(y)


class FeatureTokens(nn.Module):
    """Each measurement becomes a token: its value times a learned direction plus an offset."""

    def __init__(self, n, width):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(n, width) * 0.3)
        self.shift = nn.Parameter(torch.randn(n, width) * 0.3)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))

    def forward(self, x):
        tok = x.unsqueeze(-1) * self.scale + self.shift
        return torch.cat([self.cls.expand(len(x), -1, -1), tok], dim=1)


class GrowthModel(nn.Module):
    def __init__(self, cfg, n_features):
        super().__init__()
        self.tokens = FeatureTokens(n_features, cfg.width)
        layer = nn.TransformerEncoderLayer(cfg.width, cfg.heads, 3 * cfg.width, dropout=0.0,
                                           activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, cfg.layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(cfg.width)
        self.out = nn.Linear(cfg.width, 1)

    def forward(self, x):
        h = self.encoder(self.tokens(x))
        return self.out(self.norm(h[:, 0])).squeeze(-1)


@torch.no_grad()
def evaluate(model, x, y, mu, sd):
    model.eval()
    pred = model(x) * sd + mu
    mae = (pred - y).abs().mean().item()
    r2 = 1 - ((pred - y) ** 2).sum().item() / ((y - y.mean()) ** 2).sum().item()
    return mae, r2


def main(folder):
    cfg = Config()
    torch.manual_seed(cfg.seed)
    folder = Path(folder)
    xt, yt = read_jsonl(folder / "train.jsonl")
    xv, yv = read_jsonl(folder / "val.jsonl")
    centre, spread = xt.mean(0), xt.std(0)
    xt, xv = (xt - centre) / spread, (xv - centre) / spread
    mu, sd = yt.mean().item(), yt.std().item()
    target = (yt - mu) / sd

    model = GrowthModel(cfg, len(FEATURES))
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-3)
    steps = cfg.epochs * ((len(xt) + cfg.batch - 1) // cfg.batch)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, cfg.lr, total_steps=steps)
    for epoch in range(cfg.epochs):
        model.train()
        order = torch.randperm(len(xt))
        running = 0.0
        for i in range(0, len(order), cfg.batch):
            idx = order[i:i + cfg.batch]
            loss = F.smooth_l1_loss(model(xt[idx]), target[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            running += loss.item() * len(idx)
        if epoch % 5 == 4:
            mae, r2 = evaluate(model, xv, yv, mu, sd)
            print(f"epoch {epoch + 1:2d}  train {running / len(xt):.4f}  val MAE {mae:.3f} mm  R2 {r2:.3f}")
    mae, r2 = evaluate(model, xv, yv, mu, sd)
    print(f"final val MAE {mae:.4f} mm  R2 {r2:.4f}  (growth sd {yv.std():.3f} mm)")


if __name__ == "__main__":
    main(sys.argv[1])
