import json
import sys
from collections import Counter

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

TAGS = ["O", "DRUG", "DOSE", "FREQ"]
IGNORE = -100


def read(path):
    with open(path) as fh:
        return [json.loads(line) for line in fh]


class Vocabulary:
    def __init__(self, sentences):
        counts = Counter(t.lower() for s in sentences for t in s["tokens"])
        self.index = {"<pad>": 0, "<unk>": 1}
        for word, c in counts.most_common():
            if c > 1:
                self.index[word] = len(self.index)

    def ids(self, tokens):
        return torch.tensor([self.index.get(t.lower(), 1) for t in tokens])


def collate(sentences, vocab):
    x = pad_sequence([vocab.ids(s["tokens"]) for s in sentences], batch_first=True)
    y = pad_sequence([torch.tensor([TAGS.index(t) for t in s["tags"]]) for s in sentences], batch_first=True, padding_value=IGNORE)
    return x, y


class Tagger(nn.Module):
    def __init__(self, n_words, dim=24, hidden=24):
        super().__init__()
        self.emb = nn.Embedding(n_words, dim, padding_idx=0)
        self.drop = nn.Dropout(0.2)
        self.lstm = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, len(TAGS))

    def forward(self, x):
        h, _ = self.lstm(self.drop(self.emb(x)))
        return self.out(h)


def entity_f1(model, data, vocab):
    model.eval()
    x, y = collate(data, vocab)
    with torch.no_grad():
        p = model(x).argmax(-1)
    mask = y != IGNORE
    p, y = p[mask], y[mask]
    tp = ((p == y) & (y > 0)).sum().item()
    return 2 * tp / max(1, (p > 0).sum().item() + (y > 0).sum().item())


def main(folder):
    torch.manual_seed(17)
    train, dev = read(f"{folder}/train.jsonl"), read(f"{folder}/dev.jsonl")
    vocab = Vocabulary(train)
    model = Tagger(len(vocab.index))
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    loss_fn = nn.CrossEntropyLoss(ignore_index=IGNORE)
    for epoch in range(6):
        model.train()
        order = torch.randperm(len(train)).tolist()
        for i in range(0, len(order), 32):
            x, y = collate([train[j] for j in order[i:i + 32]], vocab)
            loss = loss_fn(model(x).flatten(0, 1), y.flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch} loss {loss.item():.4f} dev F1 {entity_f1(model, dev, vocab):.4f}")
    print(f"dev entity F1 {entity_f1(model, dev, vocab):.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
