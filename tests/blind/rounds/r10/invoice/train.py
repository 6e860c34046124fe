"""Tag invoice tokens with their field (BiLSTM over word and shape features)."""
import json
import re

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

TAGS = ["O", "VENDOR", "NUMBER", "DATE", "TOTAL", "DUE"]
IGNORE = -1


def shape_of(token):
    s = re.sub(r"[A-Z]", "X", token)
    s = re.sub(r"[a-z]+", "x", s)
    return re.sub(r"[0-9]+", "9", s)


def read(path):
    with open(path) as fh:
        return [json.loads(line) for line in fh]


def index(items, minimum=2):
    counts = {}
    for t in items:
        counts[t] = counts.get(t, 0) + 1
    vocab = {"<pad>": 0, "<unk>": 1}
    for t in sorted(counts):
        if counts[t] >= minimum:
            vocab[t] = len(vocab)
    return vocab


class Invoices(Dataset):
    def __init__(self, docs, words, shapes, max_len):
        self.rows = []
        for d in docs:
            tokens, tags = d["tokens"][:max_len], d["tags"][:max_len]
            self.rows.append((torch.tensor([words.get(t.lower(), 1) for t in tokens]),
                              torch.tensor([shapes.get(shape_of(t), 1) for t in tokens]),
                              torch.tensor([TAGS.index(t) for t in tags])))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    w, s, y = zip(*rows)
    return {"words": pad_sequence(w, batch_first=True), "shapes": pad_sequence(s, batch_first=True),
            "tags": pad_sequence(y, batch_first=True, padding_value=IGNORE),
            "lengths": torch.tensor([len(r) for r in w])}


class Tagger(nn.Module):
    def __init__(self, n_words, n_shapes, cfg):
        super().__init__()
        self.words = nn.Embedding(n_words, cfg["emb"], padding_idx=0)
        self.shapes = nn.Embedding(n_shapes, cfg["emb"], padding_idx=0)
        self.drop = nn.Dropout(cfg["dropout"])
        self.lstm = nn.LSTM(2 * cfg["emb"], cfg["hidden"], batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * cfg["hidden"], len(TAGS))

    def forward(self, batch):
        x = self.drop(torch.cat([self.words(batch["words"]), self.shapes(batch["shapes"])], dim=-1))
        packed = pack_padded_sequence(x, batch["lengths"], batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.out(self.drop(h))


@torch.no_grad()
def field_f1(model, loader):
    model.eval()
    tp = fp = fn = 0
    for batch in loader:
        pred, true = model(batch).argmax(-1), batch["tags"]
        real = true != IGNORE
        tp += ((pred == true) & (true > 0)).sum().item()
        fp += ((pred != true) & (pred > 0) & real).sum().item()
        fn += ((pred != true) & (true > 0)).sum().item()
    return 2 * tp / max(2 * tp + fp + fn, 1)


def main():
    torch.set_num_threads(1)
    with open("config.json") as fh:
        cfg = json.load(fh)
    torch.manual_seed(cfg["seed"])
    train, dev = read("data/train.jsonl"), read("data/dev.jsonl")
    words = index(t.lower() for d in train for t in d["tokens"])
    shapes = index(shape_of(t) for d in train for t in d["tokens"])
    train_loader = DataLoader(Invoices(train, words, shapes, cfg["max_len"]), cfg["batch_size"],
                              shuffle=True, collate_fn=collate)
    dev_loader = DataLoader(Invoices(dev, words, shapes, cfg["max_len"]), 64, collate_fn=collate)
    model = Tagger(len(words), len(shapes), cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    print(f"{len(train)} training invoices, {len(words)} words, {len(shapes)} shapes")
    for epoch in range(1, cfg["epochs"] + 1):
        model.train()
        losses = []
        for batch in train_loader:
            logits = model(batch)
            loss = F.cross_entropy(logits.flatten(0, 1), batch["tags"].flatten(), ignore_index=IGNORE)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch} loss {np.mean(losses):.4f} dev field F1 {field_f1(model, dev_loader):.4f}")
    return model, dev, words, shapes


if __name__ == "__main__":
    main()
