"""BiLSTM tagger for product queries (brand / size / colour spans), packed batches."""
import random

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

random.seed(13)
torch.manual_seed(13)
TAGS = ["O", "B-BRAND", "I-BRAND", "SIZE", "COLOR"]
BRANDS = [["acme"], ["north", "ridge"], ["blue", "label"], ["kinto"], ["old", "mill", "co"], ["veld"], ["red", "fox"]]
SIZES = ["xs", "small", "medium", "large", "xl", "40", "41", "42"]
COLORS = ["blue", "red", "black", "white", "green", "old-rose"]
FILLER = ["shoes", "jacket", "for", "men", "women", "with", "zip", "cheap", "shirt", "running", "label", "mill", "small", "north", "trousers"]
PAD_TAG = -100
SLIP = 0.06  # crowd annotators slip now and then


def make_query():
    words, tags = [], []
    for _ in range(random.randint(2, 6)):
        kind = random.random()
        if kind < 0.3:
            brand = random.choice(BRANDS)
            words += brand
            tags += [1] + [2] * (len(brand) - 1)
        elif kind < 0.45:
            words += ["size", random.choice(SIZES)]
            tags += [0, 3]
        elif kind < 0.6:
            words += ["in", random.choice(COLORS)]
            tags += [0, 4]
        else:
            extra = random.choices(FILLER, k=random.randint(1, 3))
            words += extra
            tags += [0] * len(extra)
    tags = [random.randrange(len(TAGS)) if random.random() < SLIP else t for t in tags]
    return words, tags


def collate(batch):
    words = [torch.tensor([vocab.get(w, 1) for w in ws]) for ws, _ in batch]
    tags = [torch.tensor(ts) for _, ts in batch]
    order = sorted(range(len(batch)), key=lambda i: -len(words[i]))
    words = [words[i] for i in order]
    lengths = torch.tensor([len(w) for w in words])
    return (pad_sequence(words, batch_first=True, padding_value=0), lengths,
            pad_sequence(tags, batch_first=True, padding_value=PAD_TAG))


class Tagger(nn.Module):
    def __init__(self, n_words, dim=24, hidden=24):
        super().__init__()
        self.emb = nn.Embedding(n_words, dim, padding_idx=0)
        self.lstm = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, len(TAGS))

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.emb(words), lengths, batch_first=True)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.out(states)


@torch.no_grad()
def evaluate(model, queries):
    model.eval()
    tp = fp = fn = 0
    for ws, ts in queries:
        ids = torch.tensor([[vocab.get(w, 1) for w in ws]])
        pred = model(ids, torch.tensor([len(ws)])).argmax(-1)[0]
        gold = torch.tensor(ts)
        tp += ((pred == gold) & (gold > 0)).sum().item()
        fp += ((pred != gold) & (pred > 0)).sum().item()
        fn += ((pred != gold) & (gold > 0)).sum().item()
    return 2 * tp / max(2 * tp + fp + fn, 1)


queries, seen = [], set()
while len(queries) < 1500:
    query = make_query()
    if tuple(query[0]) not in seen:
        seen.add(tuple(query[0]))
        queries.append(query)
train_q, dev_q = queries[:1200], queries[1200:]
vocab = {"<pad>": 0, "<unk>": 1}
for ws, _ in train_q:
    for w in ws:
        vocab.setdefault(w, len(vocab))

loader = DataLoader(train_q, batch_size=32, shuffle=True, collate_fn=collate)
model = Tagger(len(vocab))
loss_fn = nn.CrossEntropyLoss(ignore_index=PAD_TAG)
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(4):
    model.train()
    total = 0.0
    for words, lengths, tags in loader:
        logits = model(words, lengths)
        loss = loss_fn(logits.flatten(0, 1), tags.flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        total += loss.item()
    print(f"epoch {epoch}  train loss {total / len(loader):.4f}  dev token F1 {evaluate(model, dev_q):.3f}")
