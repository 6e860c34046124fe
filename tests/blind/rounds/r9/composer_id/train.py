"""Which composer wrote it? Convolutional classifier over event tokens exported from MIDI files."""
import json
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

PAD, UNK = 0, 1


def read_pieces(path):
    with open(path) as fh:
        return [(who, events.split()) for who, events in (line.rstrip("\n").split("\t") for line in fh)]


class PieceSet(Dataset):
    def __init__(self, pieces, vocab, composers, max_events, transpose):
        self.items = [(ev[:max_events], composers.index(who)) for who, ev in pieces]
        self.vocab, self.max_events, self.transpose = vocab, max_events, transpose

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        events, label = self.items[i]
        shift = int(torch.randint(-2, 3, (1,))) if self.transpose else 0
        events = [f"n{int(e[1:]) + shift}" if e[0] == "n" else e for e in events]
        ids = torch.tensor([self.vocab.get(e, UNK) for e in events])
        return F.pad(ids, (0, self.max_events - len(ids)), value=PAD), label


class ComposerNet(nn.Module):
    def __init__(self, n_vocab, n_out, embed, channels, dropout):
        super().__init__()
        self.embed = nn.Embedding(n_vocab, embed, padding_idx=PAD)
        self.conv = nn.Conv1d(embed, channels, 3, padding=1)
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(channels, n_out)

    def forward(self, ids):
        h = F.relu(self.conv(self.embed(ids).transpose(1, 2)))
        mask = (ids != PAD).unsqueeze(1).float()
        pooled = (h * mask).sum(2) / mask.sum(2).clamp(min=1)
        return self.out(self.drop(pooled))


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = [(model(x).argmax(1) == y).float() for x, y in loader]
    return torch.cat(hits).mean().item()


def main(folder):
    with open(os.path.join(folder, "config.json")) as fh:
        cfg = json.load(fh)
    torch.manual_seed(cfg["seed"])
    train_p, valid_p = (read_pieces(os.path.join(folder, f)) for f in ("train.txt", "valid.txt"))
    vocab = {e: i + 2 for i, e in enumerate(sorted({e for _, ev in train_p for e in ev}))}
    composers = sorted({who for who, _ in train_p})
    train = DataLoader(PieceSet(train_p, vocab, composers, cfg["max_events"], True), batch_size=cfg["batch"], shuffle=True)
    valid = DataLoader(PieceSet(valid_p, vocab, composers, cfg["max_events"], False), batch_size=64)
    print(f"{len(train_p)} pieces, {len(vocab)} event types, {len(composers)} composers")

    model = ComposerNet(len(vocab) + 2, len(composers), cfg["embed"], cfg["channels"], cfg["dropout"])
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg["epochs"])
    for epoch in range(cfg["epochs"]):
        model.train()
        total = 0.0
        for x, y in train:
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        sched.step()
        print(f"epoch {epoch} train loss {total / len(train_p):.4f} val accuracy {accuracy(model, valid):.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
