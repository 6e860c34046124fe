"""Multi-label ICD-10 coding of short clinical notes."""
import argparse
import json
import re
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD, UNK = 0, 1


class Notes(Dataset):
    def __init__(self, path, vocab, codes):
        self.items = []
        with open(path) as f:
            for line in f:
                r = json.loads(line)
                tokens = re.findall(r"[a-z]+|\d+", r["note"].lower())
                ids = torch.tensor([vocab.get(t, UNK) for t in tokens])
                y = torch.zeros(len(codes))
                y[[codes.index(c) for c in r["codes"]]] = 1.0
                self.items.append((ids, y))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    ids, ys = zip(*batch)
    return pad_sequence(ids, batch_first=True, padding_value=PAD), torch.stack(ys)


class Coder(nn.Module):
    def __init__(self, vocab_size, n_codes, dim=48):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, dim, padding_idx=PAD)
        self.att = nn.Linear(dim, n_codes)
        self.out = nn.Parameter(torch.randn(n_codes, dim) * 0.05)
        self.bias = nn.Parameter(torch.zeros(n_codes))

    def forward(self, ids):
        e = self.emb(ids)
        a = self.att(e).masked_fill((ids == PAD).unsqueeze(-1), float("-inf")).softmax(1)
        ctx = a.transpose(1, 2) @ e
        return (ctx * self.out).sum(-1) + self.bias


@torch.no_grad()
def micro_f1(model, loader):
    model.eval()
    tp = fp = fn = 0
    for ids, y in loader:
        p = model(ids) > 0
        tp += (p & (y > 0)).sum().item()
        fp += (p & (y == 0)).sum().item()
        fn += (~p & (y > 0)).sum().item()
    return 2 * tp / max(2 * tp + fp + fn, 1)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=Path)
    ap.add_argument("--epochs", type=int, default=8)
    args = ap.parse_args()
    torch.manual_seed(3)

    vocab = {w: i for i, w in enumerate((args.folder / "vocab.txt").read_text().splitlines())}
    codes = json.loads((args.folder / "codes.json").read_text())
    train = DataLoader(Notes(args.folder / "train.jsonl", vocab, codes), 64, shuffle=True, collate_fn=collate)
    held = DataLoader(Notes(args.folder / "heldout.jsonl", vocab, codes), 256, collate_fn=collate)

    model = Coder(len(vocab), len(codes))
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
    crit = nn.BCEWithLogitsLoss()
    for ep in range(args.epochs):
        model.train()
        tot, n = 0.0, 0
        for ids, y in train:
            opt.zero_grad()
            loss = crit(model(ids), y)
            loss.backward()
            opt.step()
            tot += loss.item()
            n += 1
        print(f"[{ep}] bce {tot / n:.4f}")
    print(f"held-out micro F1 = {micro_f1(model, held):.4f}")
