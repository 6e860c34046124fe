"""BiLSTM tagger with character features, span-level F1."""
import random
import sys
from pathlib import Path

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG"]
PAD_TAG = -100


def read_conll(path):
    sents, cur = [], []
    for line in path.read_text().splitlines():
        if line.startswith("-DOCSTART-"):
            continue
        if not line.strip():
            if cur:
                sents.append(cur)
                cur = []
            continue
        tok, tag = line.split("\t")
        cur.append((tok, TAGS.index(tag)))
    if cur:
        sents.append(cur)
    return sents


class Featurizer:
    def __init__(self, sents, min_count=2):
        counts = {}
        for s in sents:
            for tok, _ in s:
                counts[tok] = counts.get(tok, 0) + 1
        self.words = {w: i + 2 for i, w in enumerate(sorted(w for w, c in counts.items() if c >= min_count))}
        self.suffixes = {x: i + 2 for i, x in enumerate(sorted({w[-3:].lower() for w in counts}))}

    @staticmethod
    def shape(tok):
        if tok[0].isupper():
            return 1
        return 2 if tok.isalpha() else 3

    def encode(self, sent):
        w = torch.tensor([self.words.get(t, 1) for t, _ in sent])
        s = torch.tensor([self.suffixes.get(t[-3:].lower(), 1) for t, _ in sent])
        c = torch.tensor([self.shape(t) for t, _ in sent])
        y = torch.tensor([g for _, g in sent])
        return w, s, c, y

    def batch(self, sents):
        cols = list(zip(*[self.encode(s) for s in sents]))
        w, s, c = (pad_sequence(col, batch_first=True) for col in cols[:3])
        y = pad_sequence(cols[3], batch_first=True, padding_value=PAD_TAG)
        return w, s, c, y


class Tagger(nn.Module):
    def __init__(self, n_words, n_suffix, hidden=48):
        super().__init__()
        self.w = nn.Embedding(n_words, 32, padding_idx=0)
        self.s = nn.Embedding(n_suffix, 16, padding_idx=0)
        self.c = nn.Embedding(4, 8, padding_idx=0)
        self.drop = nn.Dropout(0.3)
        self.lstm = nn.LSTM(56, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, len(TAGS))

    def forward(self, w, s, c):
        if self.training:
            w = w.masked_fill((torch.rand(w.shape) < 0.1) & (w > 1), 1)
        h = self.drop(torch.cat([self.w(w), self.s(s), self.c(c)], -1))
        h, _ = self.lstm(h)
        return self.out(self.drop(h))


def spans(tags):
    found, start, kind = set(), None, None
    for i, t in enumerate(list(tags) + [0]):
        name = TAGS[t]
        if start is not None and not (name[0] == "I" and name[2:] == kind):
            found.add((start, i, kind))
            start = None
        if name[0] == "B":
            start, kind = i, name[2:]
    return found


@torch.no_grad()
def evaluate(model, feats, sents):
    model.eval()
    tp = n_pred = n_gold = 0
    for i in range(0, len(sents), 64):
        chunk = sents[i:i + 64]
        w, s, c, _ = feats.batch(chunk)
        pred = model(w, s, c).argmax(-1)
        for row, sent in zip(pred, chunk):
            p = spans(row[:len(sent)].tolist())
            g = spans([t for _, t in sent])
            tp, n_pred, n_gold = tp + len(p & g), n_pred + len(p), n_gold + len(g)
    prec, rec = tp / max(n_pred, 1), tp / max(n_gold, 1)
    return prec, rec, 2 * prec * rec / max(prec + rec, 1e-9)


def main():
    root = Path(sys.argv[1])
    torch.manual_seed(3)
    random.seed(3)
    train, dev, test = (read_conll(root / f"{p}.conll") for p in ("train", "dev", "test"))
    feats = Featurizer(train)
    print(f"sentences {len(train)}/{len(dev)}/{len(test)}, words {len(feats.words)}")
    model = Tagger(len(feats.words) + 2, len(feats.suffixes) + 2)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    loss_fn = nn.CrossEntropyLoss(ignore_index=PAD_TAG)
    best, state = -1.0, None
    for epoch in range(8):
        model.train()
        random.shuffle(train)
        total = steps = 0
        for i in range(0, len(train), 32):
            w, s, c, y = feats.batch(train[i:i + 32])
            loss = loss_fn(model(w, s, c).flatten(0, 1), y.flatten())
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            total, steps = total + loss.item(), steps + 1
        p, r, f = evaluate(model, feats, dev)
        print(f"epoch {epoch} loss {total / steps:.3f} dev P {p:.3f} R {r:.3f} F1 {f:.3f}")
        if f > best:
            best, state = f, {k: v.clone() for k, v in model.state_dict().items()}
    model.load_state_dict(state)
    p, r, f = evaluate(model, feats, test)
    print(f"test P {p:.3f} R {r:.3f}")
    print(f"test_f1 {f:.4f}")


if __name__ == "__main__":
    main()
