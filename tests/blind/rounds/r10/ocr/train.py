"""Reader for serial-number strips: CNN with one classifier per character slot."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Charset:
    def __init__(self, path):
        with open(path) as fh:
            self.symbols = fh.read().split()
        self.index = {s: i for i, s in enumerate(self.symbols)}
        self.unk = self.index["<unk>"]

    def __len__(self):
        return len(self.symbols)

    def encode(self, text):
        return [self.index.get(c, self.unk) for c in text]


class Strips(torch.utils.data.Dataset):
    def __init__(self, split, charset):
        self.images = np.load(f"data/{split}_strips.npy")
        with open(f"data/{split}_text.txt") as fh:
            self.text = fh.read().split()
        self.codes = torch.tensor([charset.encode(t) for t in self.text])

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        x = torch.from_numpy(self.images[i]).float().div(255).sub(0.2).div(0.3)
        return x.unsqueeze(0), self.codes[i]


class Reader(nn.Module):
    def __init__(self, n_symbols, slots=4, ch=16):
        super().__init__()
        self.c1 = nn.Conv2d(1, ch, 3, padding=1)
        self.c2 = nn.Conv2d(ch, 2 * ch, 3, padding=1)
        self.slots = slots
        self.fc = nn.Linear(2 * ch * 3 * 3, 64)
        self.out = nn.Linear(64, n_symbols)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        x = F.adaptive_avg_pool2d(x, (3, 3 * self.slots))
        x = x.unflatten(3, (self.slots, 3)).permute(0, 3, 1, 2, 4).flatten(2)
        return self.out(F.relu(self.fc(x)))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    loss = chars = strings = n = 0
    for x, y in loader:
        out = model(x)
        loss += F.cross_entropy(out.flatten(0, 1), y.flatten(), reduction="sum").item()
        hit = out.argmax(-1) == y
        chars += hit.sum().item()
        strings += hit.all(1).sum().item()
        n += len(y)
    return loss / (n * y.shape[1]), chars / (n * y.shape[1]), strings / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch", type=int, default=50)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(14)
    charset = Charset("data/charset.txt")
    train, val = Strips("train", charset), Strips("val", charset)
    train_loader = torch.utils.data.DataLoader(train, args.batch, shuffle=True)
    val_loader = torch.utils.data.DataLoader(val, 250)
    model = Reader(len(charset))
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    print(f"{len(train)} strips, {len(charset)} symbols")
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, y in train_loader:
            out = model(x)
            loss = F.cross_entropy(out.flatten(0, 1), y.flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        vl, ca, sa = evaluate(model, val_loader)
        print(f"epoch {epoch} train {total / len(train_loader):.4f} val {vl:.4f} char acc {ca:.4f} string acc {sa:.4f}")
    return model, charset, val


if __name__ == "__main__":
    main()
