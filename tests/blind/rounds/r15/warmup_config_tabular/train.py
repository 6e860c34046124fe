"""Transformer over table columns; everything is set in config.json."""
import json
import sys
from pathlib import Path
from types import SimpleNamespace
import torch
from torch import nn


def load_config(folder):
    text = (Path(folder) / "config.json").read_text()
    return json.loads(text, object_hook=lambda d: SimpleNamespace(**d))


def make_rows(n, columns, gen):
    x = torch.rand(n, columns, generator=gen) * 2 - 1
    top = x.argmax(dim=1)
    return x, top


class ColumnTransformer(nn.Module):
    def __init__(self, m, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(columns, m.d_model))
        self.shift = nn.Parameter(torch.randn(columns, m.d_model) * 0.1)
        layer = nn.TransformerEncoderLayer(m.d_model, m.heads, 2 * m.d_model, m.dropout, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, m.layers, enable_nested_tensor=False)
        self.out = nn.Linear(m.d_model, columns)

    def forward(self, x):
        tokens = x.unsqueeze(-1) * self.scale + self.shift
        return self.out(self.encoder(tokens).mean(1))


def schedule(o, total):
    def factor(step):
        if step < o.warmup_steps:
            return (step + 1) / o.warmup_steps
        return max(0.05, (total - step) / max(1, total - o.warmup_steps))
    return factor


def main(folder):
    cfg = load_config(folder)
    torch.manual_seed(cfg.data.seed)
    gen = torch.Generator().manual_seed(cfg.data.seed)
    x, y = make_rows(cfg.data.rows, cfg.data.columns, gen)
    xt, yt = make_rows(cfg.data.test_rows, cfg.data.columns, gen)
    model = ColumnTransformer(cfg.model, cfg.data.columns)
    o = cfg.optim
    opt = torch.optim.AdamW(model.parameters(), lr=o.peak_lr, weight_decay=o.weight_decay)
    total = o.epochs * (len(x) // o.batch_size)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, schedule(o, total))
    for epoch in range(o.epochs):
        model.train()
        mean_loss = 0.0
        for idx in torch.randperm(len(x), generator=gen).split(o.batch_size):
            loss = nn.functional.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            mean_loss += loss.item() * len(idx) / len(x)
        if epoch % 3 == 2:
            print(f"epoch {epoch + 1}/{o.epochs} loss {mean_loss:.4f}")
    model.eval()
    with torch.no_grad():
        acc = (model(xt).argmax(1) == yt).float().mean().item()
    print(f"test accuracy: {acc:.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
