import json
import os
import sys

import numpy as np
import torch
from torch import nn

MASK = 0


def load(folder):
    with open(os.path.join(folder, "pretrain.json")) as f:
        cfg = json.load(f)
    with np.load(os.path.join(folder, "orders.npz")) as z:
        parts = [torch.from_numpy(z[k].astype(np.int64)) for k in ("train", "valid", "test")]
    return cfg, parts


class BasketModel(nn.Module):
    def __init__(self, n_items, length, dim, heads, layers):
        super().__init__()
        self.items = nn.Embedding(n_items + 1, dim)
        self.slots = nn.Parameter(torch.randn(length, dim) * 0.02)
        block = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.out = nn.Linear(dim, n_items + 1)

    def forward(self, tokens):
        return self.out(self.encoder(self.items(tokens) + self.slots))


def hide(tokens, ratio, gen):
    chosen = torch.rand(tokens.shape, generator=gen) < ratio
    return tokens.masked_fill(chosen, MASK)


@torch.no_grad()
def completion(model, tokens):
    """Share of right guesses when one slot at a time is unknown."""
    model.eval()
    hits = []
    for slot in range(tokens.shape[1]):
        query = tokens.clone()
        query[:, slot] = MASK
        hits.append((model(query)[:, slot].argmax(-1) == tokens[:, slot]).float().mean())
    model.train()
    return torch.stack(hits).mean().item()


def main(folder):
    cfg, (train, valid, test) = load(folder)
    torch.manual_seed(cfg["seed"])
    gen = torch.Generator().manual_seed(cfg["seed"])
    model = BasketModel(cfg["n_items"], train.shape[1], cfg["dim"], cfg["heads"], cfg["layers"])
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=0.01)
    steps = cfg["epochs"] * (len(train) // cfg["batch"])
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, cfg["lr"], total_steps=steps)
    for epoch in range(cfg["epochs"]):
        perm = torch.randperm(len(train), generator=gen)[: len(train) // cfg["batch"] * cfg["batch"]]
        running = 0.0
        for rows in perm.view(-1, cfg["batch"]):
            clean = train[rows]
            logits = model(hide(clean, cfg["mask_ratio"], gen))
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), clean.flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            running += loss.item()
        print("epoch %d  loss %.4f  valid completion %.4f" % (epoch + 1, running / (len(perm) // cfg["batch"]), completion(model, valid)))
    print("test completion %.4f" % completion(model, test))


if __name__ == "__main__":
    main(sys.argv[1])
