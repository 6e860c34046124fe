import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

ALPHABET = "-ACDEFGHIKLMNPQRSTVWY"
MAXLEN = 96


def read_fasta(path):
    records, fam, seq = [], None, []
    with open(path) as f:
        for line in f:
            if line.startswith(">"):
                if fam is not None:
                    records.append((fam, "".join(seq)))
                fam, seq = dict(p.split("=") for p in line.split()[1:])["family"], []
            else:
                seq.append(line.strip())
    records.append((fam, "".join(seq)))
    return records


def encode(seq):
    ids = [ALPHABET.index(a) for a in seq[:MAXLEN]]
    return ids + [0] * (MAXLEN - len(ids))


def tensors(records, families):
    x = torch.tensor([encode(s) for _, s in records])
    y = torch.tensor([families.index(f) for f, _ in records])
    return list(zip(x, y))


class ProtCNN(nn.Module):
    def __init__(self, n_fam, dim=24, width=96):
        super().__init__()
        self.emb = nn.Embedding(len(ALPHABET), dim, padding_idx=0)
        self.conv = nn.Conv1d(dim, width, 9, padding=4)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(width, n_fam)

    def forward(self, ids):
        h = F.relu(self.conv(self.emb(ids).transpose(1, 2)))
        h = h.masked_fill((ids == 0).unsqueeze(1), 0.0)
        return self.out(self.drop(h.amax(-1)))


def main():
    torch.manual_seed(17)
    folder = sys.argv[1]
    train = read_fasta(os.path.join(folder, "pfam_train.fasta"))
    test = read_fasta(os.path.join(folder, "pfam_test.fasta"))
    families = sorted({f for f, _ in train})
    loader = DataLoader(tensors(train, families), batch_size=32, shuffle=True)
    test_loader = DataLoader(tensors(test, families), batch_size=200)

    model = ProtCNN(len(families))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    for epoch in range(10):
        model.train()
        total = 0.0
        for ids, y in loader:
            loss = F.cross_entropy(model(ids), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        print(f"epoch {epoch + 1} loss {total / len(train):.4f}")

    model.eval()
    good = 0
    with torch.no_grad():
        for ids, y in test_loader:
            good += (model(ids).argmax(1) == y).sum().item()
    print(f"test accuracy over {len(test)} sequences, {len(families)} families: {good / len(test):.4f}")


if __name__ == "__main__":
    main()
