import argparse
import json
import re
from pathlib import Path

import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader

WORD = re.compile(r"[a-z']+")


class Tokenizer:
    def __init__(self, path):
        self.table = json.loads(Path(path).read_text())
        self.unk = self.table["<unk>"]

    def __len__(self):
        return max(self.table.values()) + 1

    def __call__(self, text):
        return [self.table.get(w, self.unk) for w in WORD.findall(text.lower())]


def make_loader(frame, tokenizer, size, shuffle):
    items = [(tokenizer(t), s) for t, s in zip(frame.text, frame.stars)]

    def collate(batch):
        flat = [i for ids, _ in batch for i in ids]
        starts = torch.tensor([0] + [len(ids) for ids, _ in batch[:-1]]).cumsum(0)
        return torch.tensor(flat), starts, torch.tensor([s for _, s in batch]) - 1

    return DataLoader(items, batch_size=size, shuffle=shuffle, collate_fn=collate)


class BagModel(nn.Module):
    def __init__(self, words, dim, classes):
        super().__init__()
        self.bag = nn.EmbeddingBag(words, dim, mode="mean")
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, classes)

    def forward(self, ids, starts):
        return self.out(self.norm(self.bag(ids, starts)))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = n = 0
    for ids, starts, y in loader:
        right += (model(ids, starts).argmax(1) == y).sum().item()
        n += len(y)
    return right / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=Path)
    folder = ap.parse_args().folder
    torch.manual_seed(6)
    tokenizer = Tokenizer(folder / "vocab.json")
    train = make_loader(pd.read_csv(folder / "train.csv"), tokenizer, 64, True)
    dev = make_loader(pd.read_csv(folder / "dev.csv"), tokenizer, 256, False)
    model = BagModel(len(tokenizer), 32, 3)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(8):
        model.train()
        for ids, starts, y in train:
            loss = nn.functional.cross_entropy(model(ids, starts), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print("epoch", epoch, "loss", round(loss.item(), 4), "dev", round(evaluate(model, dev), 4))
    print("dev accuracy", round(evaluate(model, dev), 4))


if __name__ == "__main__":
    main()
