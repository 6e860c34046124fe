"""Extractive question answering: point at the word of the context that answers the question."""
import json
import os
import re
import sys

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


def words(text):
    return [(m.group(), m.start(), m.end()) for m in re.finditer(r"\S+", text)]


def word_at(spans, offset):
    """Index of the word that covers a character offset (or the first one after it)."""
    for i, (_, _, end) in enumerate(spans):
        if offset < end:
            return i
    return len(spans) - 1


class Reports(Dataset):
    def __init__(self, path, vocab=None):
        with open(path) as f:
            raw = json.load(f)
        self.vocab = vocab or {"<pad>": 0, "<unk>": 1}
        self.rows = []
        for r in raw:
            spans = words(r["context"])
            c = [self.index(w, vocab is None) for w, _, _ in spans]
            q = [self.index(w, vocab is None) for w, _, _ in words(r["question"])]
            at = word_at(spans, r["answer"]["answer_start"])
            self.rows.append((torch.tensor(c), torch.tensor(q), at, [w for w, _, _ in spans], r["answer"]["text"]))

    def index(self, w, grow):
        if grow:
            return self.vocab.setdefault(w, len(self.vocab))
        return self.vocab.get(w, 1)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    c, q, at, tokens, text = zip(*rows)
    return pad_sequence(c, batch_first=True), pad_sequence(q, batch_first=True), torch.tensor(at), tokens, text


class Pointer(nn.Module):
    def __init__(self, n, d=32):
        super().__init__()
        self.emb = nn.Embedding(n, d, padding_idx=0)
        self.ctx = nn.GRU(2 * d, d, batch_first=True, bidirectional=True)
        self.key = nn.Linear(2 * d, d)
        self.out = nn.Linear(3 * d, 1)

    def forward(self, c, q):
        ec, eq = self.emb(c), self.emb(q)
        match = (ec @ eq.transpose(1, 2)).softmax(-1) @ eq
        h, _ = self.ctx(torch.cat([ec, ec * match], -1))
        z = torch.cat([self.key(h) * eq.sum(1, keepdim=True), h], -1)
        return self.out(z).squeeze(-1).masked_fill(c == 0, -1e9)


def exact_match(model, loader):
    model.eval()
    hit = n = 0
    with torch.no_grad():
        for c, q, _, tokens, text in loader:
            best = model(c, q).argmax(1).tolist()
            hit += sum(tok[b] == t for tok, b, t in zip(tokens, best, text))
            n += len(text)
    model.train()
    return hit / n


if __name__ == "__main__":
    folder = sys.argv[1]
    torch.manual_seed(40)
    train = Reports(os.path.join(folder, "train.json"))
    test = Reports(os.path.join(folder, "test.json"), train.vocab)
    loader = DataLoader(train, batch_size=32, shuffle=True, collate_fn=collate)
    model = Pointer(len(train.vocab))
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.85)
    for epoch in range(8):
        losses = []
        for c, q, at, _, _ in loader:
            loss = nn.functional.cross_entropy(model(c, q), at)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            opt.step()
            losses.append(loss.item())
        sched.step()
        print(f"epoch {epoch + 1} loss {sum(losses) / len(losses):.4f}")
    print(f"test exact match {exact_match(model, DataLoader(test, 64, collate_fn=collate)):.4f}")
