"""Click-through prediction from a stream of JSON lines, hashed crosses, one pass per epoch."""
import glob
import json
import random
import zlib

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset

with open("settings.json") as f:
    CFG = json.load(f)
BUCKETS = CFG["buckets"]


def bucket(text):
    return zlib.crc32(text.encode()) % BUCKETS


def hash_row(row):
    feats = [f"{k}={row[k]}" for k in CFG["fields"]]
    feats += [f"{a}={row[a]}&{b}={row[b]}" for a, b in CFG["crosses"]]
    return [bucket(t) for t in feats]


class Stream(IterableDataset):
    """Reads shards one after the other and mixes rows in a bounded buffer."""

    def __init__(self, paths, buffer_size, seed):
        super().__init__()
        self.paths, self.buffer_size = paths, buffer_size
        self.rng = random.Random(seed)

    def rows(self):
        for path in self.paths:
            with open(path) as f:
                for line in f:
                    row = json.loads(line)
                    yield torch.tensor(hash_row(row)), float(row["click"])

    def __iter__(self):
        buffer = []
        for item in self.rows():
            if len(buffer) < self.buffer_size:
                buffer.append(item)
                continue
            i = self.rng.randrange(len(buffer))
            yield buffer[i]
            buffer[i] = item
        self.rng.shuffle(buffer)
        yield from buffer


class HashedNet(nn.Module):
    def __init__(self, n_fields):
        super().__init__()
        self.linear = nn.Embedding(BUCKETS, 1)
        self.factors = nn.Embedding(BUCKETS, CFG["dim"])
        self.deep = nn.Sequential(nn.Linear(n_fields * CFG["dim"], 32), nn.ReLU(), nn.Linear(32, 1))
        nn.init.zeros_(self.linear.weight)
        nn.init.normal_(self.factors.weight, std=0.02)

    def forward(self, ids):
        wide = self.linear(ids).sum(dim=(1, 2))
        return wide + self.deep(self.factors(ids).flatten(1)).squeeze(1)


def load_all(path):
    ids, ys = [], []
    with open(path) as f:
        for line in f:
            row = json.loads(line)
            ids.append(hash_row(row))
            ys.append(row["click"])
    return torch.tensor(ids), torch.tensor(ys, dtype=torch.float32)


@torch.no_grad()
def evaluate(model, ids, y):
    model.eval()
    logit = model(ids)
    loss = nn.functional.binary_cross_entropy_with_logits(logit, y).item()
    rank = np.empty(len(y))
    rank[np.argsort(logit.numpy(), kind="stable")] = np.arange(1, len(y) + 1)
    pos = y.numpy() == 1
    auc = (rank[pos].sum() - pos.sum() * (pos.sum() + 1) / 2) / (pos.sum() * (~pos).sum())
    return loss, auc


def main():
    torch.manual_seed(CFG["seed"])
    paths = sorted(glob.glob("shards/part-*.jsonl"))
    stream = Stream(paths, CFG["shuffle_buffer"], CFG["seed"])
    loader = DataLoader(stream, batch_size=CFG["batch_size"], num_workers=0)
    ids, y = load_all("valid.jsonl")
    rate = y.mean().item()
    entropy = -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))
    print(f"{len(paths)} shards, validation click rate {rate:.3f}, constant log loss {entropy:.4f}")

    model = HashedNet(ids.shape[1])
    opt = torch.optim.Adam(model.parameters(), lr=CFG["lr"])
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(1, CFG["epochs"] + 1):
        model.train()
        losses = []
        for step, (xb, yb) in enumerate(loader, 1):
            opt.zero_grad()
            loss = criterion(model(xb), yb.float())
            loss.backward()
            opt.step()
            losses.append(loss.item())
            if step % 50 == 0:
                print(f"  epoch {epoch} step {step:4d}  loss {np.mean(losses[-50:]):.4f}")
        val_loss, val_auc = evaluate(model, ids, y)
        print(f"epoch {epoch}  train loss {np.mean(losses):.4f}  val log loss {val_loss:.4f}  val AUC {val_auc:.4f}")


if __name__ == "__main__":
    main()
