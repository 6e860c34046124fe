"""Binding of a strand-specific RNA-binding factor from genomic sequence around candidate sites."""
import csv
import logging
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(level=logging.INFO, format="[%(levelname)s] %(message)s")
WINDOW = 60
CODE = {b: i for i, b in enumerate("ACGT")}
COMPLEMENT = {"A": "T", "C": "G", "G": "C", "T": "A"}


def read_fasta(path):
    chroms, name = {}, None
    for line in path.read_text().splitlines():
        if line.startswith(">"):
            name = line[1:].split()[0]
            chroms[name] = []
        else:
            chroms[name].append(line.strip())
    return {k: "".join(v) for k, v in chroms.items()}


def extract(chroms, row):
    start = int(row["centre"]) - WINDOW // 2
    seq = chroms[row["chrom"]][start:start + WINDOW]
    if row["strand"] == "-":
        seq = "".join(COMPLEMENT[b] for b in reversed(seq))
    return seq


def one_hot(seqs):
    idx = torch.tensor([[CODE[b] for b in s] for s in seqs])
    return nn.functional.one_hot(idx, 4).transpose(1, 2).float()


def load(folder):
    chroms = read_fasta(folder / "genome.fa")
    parts = {"train": ([], []), "valid": ([], []), "test": ([], [])}
    with open(folder / "sites.csv", newline="") as f:
        for row in csv.DictReader(f):
            seqs, labels = parts[row["part"]]
            seqs.append(extract(chroms, row))
            labels.append(float(row["bound"]))
    return {k: TensorDataset(one_hot(s), torch.tensor(y)) for k, (s, y) in parts.items()}


class MotifCNN(nn.Module):
    def __init__(self, filters=32, width=13):
        super().__init__()
        self.conv = nn.Conv1d(4, filters, width)
        self.norm = nn.BatchNorm1d(filters)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(filters, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        h = torch.relu(self.norm(self.conv(x))).amax(-1)
        return self.head(h).squeeze(1)


def auc(scores, labels):
    order = np.argsort(scores)
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    pos = labels == 1
    n1, n0 = pos.sum(), (~pos).sum()
    return (ranks[pos].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)


@torch.no_grad()
def predict(model, ds):
    model.eval()
    x, y = ds.tensors
    return model(x).numpy(), y.numpy()


def main():
    torch.manual_seed(0)
    data = load(Path(sys.argv[1]))
    logging.info("sites: %s", {k: len(v) for k, v in data.items()})
    loader = DataLoader(data["train"], batch_size=64, shuffle=True)
    model = MotifCNN()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    loss_fn = nn.BCEWithLogitsLoss()
    best, state = 0.0, None
    for epoch in range(18):
        model.train()
        total = 0.0
        for x, y in loader:
            loss = loss_fn(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        a = auc(*predict(model, data["valid"]))
        if a > best:
            best, state = a, {k: v.clone() for k, v in model.state_dict().items()}
        if epoch % 3 == 2:
            logging.info("epoch %d loss %.3f valid auc %.3f", epoch + 1, total / len(loader), a)
    model.load_state_dict(state)
    print(f"valid_auc {best:.4f}")
    print(f"test_auc {auc(*predict(model, data['test'])):.4f}")


if __name__ == "__main__":
    main()
