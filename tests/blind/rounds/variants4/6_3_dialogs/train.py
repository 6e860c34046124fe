"""Does the customer threaten to cancel?"""
import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader


def read_vocab(path):
    return {w: i for i, w in enumerate(path.read_text().splitlines())}


def flatten(dialog, vocab):
    unk = vocab["<unk>"]
    words = []
    for turn in dialog["turns"]:
        words.append(f"<{turn['who']}>")
        words.extend(turn["text"].split())
    return [vocab.get(w, unk) for w in words]


class Pad:
    def __init__(self, pad):
        self.pad = pad

    def __call__(self, items):
        width = max(len(ids) for ids, _ in items)
        x = torch.full((len(items), width), self.pad)
        for r, (ids, _) in enumerate(items):
            x[r, :len(ids)] = torch.tensor(ids)
        return {"ids": x, "mask": x != self.pad, "target": torch.tensor([t for _, t in items], dtype=torch.float32)}


class DialogNet(nn.Module):
    def __init__(self, words, pad, dim=24, hidden=24):
        super().__init__()
        self.emb = nn.Embedding(words, dim, padding_idx=pad)
        self.gru = nn.GRU(dim, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, batch):
        h, _ = self.gru(self.emb(batch["ids"]))
        h = h.masked_fill(~batch["mask"].unsqueeze(-1), -1e4).max(1).values
        return self.out(h).squeeze(1)


def load(path, vocab):
    rows = json.loads(path.read_text())
    return [(flatten(d, vocab), d["cancel"]) for d in rows]


def accuracy(net, loader):
    net.eval()
    hit = n = 0
    with torch.no_grad():
        for b in loader:
            hit += ((net(b) > 0) == (b["target"] > 0.5)).sum().item()
            n += len(b["target"])
    return hit / n


def main(folder):
    torch.manual_seed(29)
    vocab = read_vocab(folder / "vocab.txt")
    pad = vocab["<pad>"]
    train = DataLoader(load(folder / "train.json", vocab), batch_size=32, shuffle=True, collate_fn=Pad(pad))
    dev = DataLoader(load(folder / "dev.json", vocab), batch_size=256, collate_fn=Pad(pad))
    net = DialogNet(len(vocab), pad)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for epoch in range(8):
        net.train()
        for batch in train:
            loss = nn.functional.binary_cross_entropy_with_logits(net(batch), batch["target"])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
        print(f"epoch {epoch}: loss {loss.item():.4f} dev {accuracy(net, dev):.4f}")
    print(f"dev accuracy: {accuracy(net, dev):.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
