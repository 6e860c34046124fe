"""CTR model with hashed user and ad ids (factorisation machine). Buckets in FOLDER/config.json."""
import json
import sys
import zlib
from pathlib import Path
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

FOLDER = Path(sys.argv[1])


def bucket(field, value, size):
    return zlib.crc32(f"{field}={value}".encode()) % size


def impressions(name, buckets):
    rows = np.loadtxt(FOLDER / name, delimiter=",", skiprows=1, dtype=np.int64)
    fields = ("user", "ad", "hour")
    ids = [[bucket(f, v, buckets) for f, v in zip(fields, row)] for row in rows[:, :3].tolist()]
    return torch.tensor(ids), torch.tensor(rows[:, 3], dtype=torch.float32)


def auc(score, label):
    rank = np.argsort(np.argsort(score)) + 1.0
    n_pos = (label == 1).sum()
    return (rank[label == 1].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * (len(label) - n_pos))


class FM(nn.Module):
    def __init__(self, buckets, dim):
        super().__init__()
        self.linear = nn.Embedding(buckets, 1)
        self.factors = nn.Embedding(buckets, dim)
        self.bias = nn.Parameter(torch.zeros(1))
        nn.init.zeros_(self.linear.weight)
        nn.init.normal_(self.factors.weight, std=0.05)

    def forward(self, ids):
        v = self.factors(ids)
        pairwise = 0.5 * (v.sum(1) ** 2 - (v ** 2).sum(1)).sum(1)
        return self.bias + self.linear(ids).sum((1, 2)) + pairwise


def main():
    cfg = json.loads((FOLDER / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    x_train, y_train = impressions("train.csv", cfg["hash_buckets"])
    x_val, y_val = impressions("val.csv", cfg["hash_buckets"])
    model = FM(cfg["hash_buckets"], cfg["dim"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])
    for epoch in range(cfg["epochs"]):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x_train)).split(cfg["batch_size"]):
            loss = F.binary_cross_entropy_with_logits(model(x_train[idx]), y_train[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            logit = model(x_val)
        val_loss = F.binary_cross_entropy_with_logits(logit, y_val).item()
        print(f"epoch {epoch} train {total / len(x_train):.4f} val {val_loss:.4f} AUC {auc(logit.numpy(), y_val.numpy()):.3f}")


if __name__ == "__main__":
    main()
