"""Route recognised text lines of scanned pages: stage play or newspaper press."""
import argparse
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

KINDS = {"play": 0, "press": 1}
MAX_LEN = 40


class Charset:
    def __init__(self, path):
        with open(path) as f:
            symbols = [s.rstrip("\n") for s in f]
        self.index = {(" " if s == "<space>" else s): i for i, s in enumerate(symbols)}
        self.unk = self.index["<unk>"]

    def __len__(self):
        return len(self.index)

    def encode(self, text):
        ids = [self.index.get(ch, self.unk) for ch in text[:MAX_LEN]]
        return torch.tensor(ids + [self.index["<pad>"]] * (MAX_LEN - len(ids)))


class Lines(Dataset):
    def __init__(self, path, charset):
        self.items = []
        with open(path) as f:
            for row in f:
                kind, text = row.rstrip("\n").split("\t")
                self.items.append((charset.encode(text), KINDS[kind]))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class LineNet(nn.Module):
    def __init__(self, n_symbols, dim=24, channels=48):
        super().__init__()
        self.emb = nn.Embedding(n_symbols, dim, padding_idx=0)
        self.conv3 = nn.Conv1d(dim, channels, 3, padding=1)
        self.conv5 = nn.Conv1d(dim, channels, 5, padding=2)
        self.drop = nn.Dropout(0.4)
        self.out = nn.Linear(2 * channels, len(KINDS))

    def forward(self, ids):
        e = self.emb(ids).transpose(1, 2)
        h = torch.cat([F.relu(self.conv3(e)).amax(-1), F.relu(self.conv5(e)).amax(-1)], 1)
        return self.out(self.drop(h))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder")
    args = ap.parse_args()
    torch.manual_seed(2)
    charset = Charset(os.path.join(args.folder, "charset.txt"))
    train = Lines(os.path.join(args.folder, "train.tsv"), charset)
    val = Lines(os.path.join(args.folder, "val.tsv"), charset)
    train_dl = DataLoader(train, batch_size=40, shuffle=True)
    val_dl = DataLoader(val, batch_size=200)
    net = LineNet(len(charset))
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-2)
    for epoch in range(7):
        net.train()
        total = 0.0
        for ids, kind in train_dl:
            loss = F.cross_entropy(net(ids), kind)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(kind)
        net.eval()
        right, vloss = 0, 0.0
        with torch.no_grad():
            for ids, kind in val_dl:
                logits = net(ids)
                right += (logits.argmax(1) == kind).sum().item()
                vloss += F.cross_entropy(logits, kind, reduction="sum").item()
        print(f"epoch {epoch} train {total / len(train):.3f} val {vloss / len(val):.3f} acc {right / len(val):.3f}")


if __name__ == "__main__":
    main()
