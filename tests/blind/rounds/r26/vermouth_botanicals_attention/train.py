"""Panel bitterness of a vermouth blend from its botanicals (frozen aroma vectors, trained attention on top)."""
import argparse
import json
import os

import numpy as np
import torch
from torch import nn


def read_blends(path, vocab):
    ids, dose, y = [], [], []
    with open(path) as f:
        for line in f:
            b = json.loads(line)
            ids.append([vocab[n] for n in b["botanicals"]])
            dose.append(b["g_per_l"])
            y.append(b["bitterness"])
    width = max(map(len, ids))
    id_t = torch.zeros(len(ids), width, dtype=torch.long)
    dose_t = torch.zeros(len(ids), width)
    mask = torch.zeros(len(ids), width, dtype=torch.bool)
    for r, (i, d) in enumerate(zip(ids, dose)):
        id_t[r, :len(i)] = torch.tensor(i)
        dose_t[r, :len(d)] = torch.tensor(d)
        mask[r, :len(i)] = True
    return id_t, dose_t, mask, torch.tensor(y)


class BlendModel(nn.Module):
    def __init__(self, vectors, width=32, heads=4):
        super().__init__()
        self.aroma = nn.Embedding.from_pretrained(vectors, freeze=True)
        self.inp = nn.Sequential(nn.Linear(vectors.shape[1] + 2, width), nn.GELU(), nn.Linear(width, width))
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1 = nn.LayerNorm(width)
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.norm2 = nn.LayerNorm(width)
        self.out = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, 1))

    def forward(self, ids, dose, mask):
        d = torch.stack([dose, torch.log(dose + 0.05)], -1)
        h = self.inp(torch.cat([self.aroma(ids), d], -1))
        h = self.norm1(h + self.attn(h, h, h, key_padding_mask=~mask, need_weights=False)[0])
        h = self.norm2(h + self.ff(h))
        m = mask.unsqueeze(-1).float()
        total = (h * m * dose.unsqueeze(-1)).sum(1)
        mean = (h * m).sum(1) / m.sum(1)
        return self.out(torch.cat([total, mean], -1)).squeeze(-1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("--epochs", type=int, default=16)
    a = p.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    vectors = torch.from_numpy(np.load(os.path.join(a.folder, "aroma_vectors.npy")))
    with open(os.path.join(a.folder, "vocab.json")) as f:
        vocab = json.load(f)
    if len(vocab) != len(vectors):
        raise SystemExit("vocabulary and vectors differ in size")
    *train, y_train = read_blends(os.path.join(a.folder, "blends_train.jsonl"), vocab)
    *valid, y_valid = read_blends(os.path.join(a.folder, "blends_valid.jsonl"), vocab)
    mean, std = y_train.mean(), y_train.std()

    model = BlendModel(vectors)
    params = [q for q in model.parameters() if q.requires_grad]
    opt = torch.optim.AdamW(params, lr=2e-3, weight_decay=0.01)
    steps = a.epochs * (len(y_train) // 50)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1, (s + 1) / 40) * 0.5 * (1 + np.cos(np.pi * min(1, s / steps))))
    for epoch in range(a.epochs):
        model.train()
        running = 0.0
        for idx in torch.randperm(len(y_train)).split(50):
            pred = model(*(t[idx] for t in train))
            loss = nn.functional.mse_loss(pred, (y_train[idx] - mean) / std)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(params, 2.0)
            opt.step()
            sched.step()
            running += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            mae = (model(*valid) * std + mean - y_valid).abs().mean().item()
        if epoch % 3 == 0:
            print(f"epoch {epoch:2d}  train {running / len(y_train):.4f}  valid MAE {mae:.2f} points "
                  f"(spread {y_valid.std():.1f})")


if __name__ == "__main__":
    main()
