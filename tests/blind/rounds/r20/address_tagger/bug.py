"""Token tagger for free-text postal addresses (BiLSTM)."""
import random
from collections import Counter

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

TAGS = ["O", "NAME", "STREET", "NUMBER", "CITY", "ZIP", "COUNTRY"]
PAD_TAG = -100

FIRST = "anna paul maria john lena victor rosa peter clara hugo florence paris jordan madison austin georgia".split()
LAST = "miller baker stone rivers hill lake church park weber costa moreau king london lincoln".split()
STREET = "oak park lake church king lincoln hill mill rose station victoria garden high paris".split()
KIND = "street road avenue lane way square".split()
CITY = "paris london florence austin madison lincoln lyon porto ghent leeds turin bristol victoria".split()
COUNTRY = "france england italy jordan georgia portugal belgium spain".split()
FILLER = "please deliver to the attention of c/o dear parcel for our new office at".split()


def number(rng, digits):
    return "".join(rng.choice("0123456789") for _ in range(digits))


def address(rng):
    parts = []
    if rng.random() < 0.5:
        parts += [(w, "O") for w in rng.sample(FILLER, rng.randint(1, 4))]
    if rng.random() < 0.8:
        parts += [(rng.choice(FIRST), "NAME"), (rng.choice(LAST), "NAME")]
        if rng.random() < 0.3:
            parts += [("and", "O"), (rng.choice(FIRST), "NAME"), (rng.choice(LAST), "NAME")]
    street = [(w, "STREET") for w in rng.sample(STREET, rng.randint(1, 2))] + [(rng.choice(KIND), "STREET")]
    num = [(number(rng, rng.randint(1, 5)), "NUMBER")]
    parts += num + street if rng.random() < 0.5 else street + num
    zip_code = [(number(rng, rng.randint(4, 5)), "ZIP")]
    city = [(rng.choice(CITY), "CITY")]
    parts += zip_code + city if rng.random() < 0.5 else city + zip_code
    if rng.random() < 0.6:
        parts.append((rng.choice(COUNTRY), "COUNTRY"))
    if rng.random() < 0.3:
        parts += [("tel", "O"), (number(rng, rng.randint(4, 6)), "O")]
    return [w for w, _ in parts], [t for _, t in parts]


def shape(token):
    return f"<num{len(token)}>" if token.isdigit() else token


class Vocab:
    def __init__(self, sentences):
        counts = Counter(shape(w) for s, _ in sentences for w in s)
        self.index = {"<pad>": 0, "<unk>": 1}
        for w, _ in counts.most_common():
            self.index[w] = len(self.index)

    def __call__(self, words):
        return torch.tensor([self.index.get(shape(w), 1) for w in words])


def make_collate(vocab):
    tag_id = {t: i for i, t in enumerate(TAGS)}

    def collate(batch):
        words = [vocab(w) for w, _ in batch]
        tags = [torch.tensor([tag_id[t] for t in ts]) for _, ts in batch]
        lengths = torch.tensor([len(w) for w in words])
        lengths, order = lengths.sort(descending=True)
        words = pad_sequence(words, batch_first=True)[order]
        tags = pad_sequence(tags, batch_first=True, padding_value=PAD_TAG)
        return words, lengths, tags
    return collate


class Tagger(nn.Module):
    def __init__(self, n_words, dim=32, hidden=48):
        super().__init__()
        self.emb = nn.Embedding(n_words, dim, padding_idx=0)
        self.drop = nn.Dropout(0.2)
        self.lstm = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, len(TAGS))

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.drop(self.emb(words)), lengths, batch_first=True)
        h, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.out(self.drop(h))


def score(model, loader):
    model.eval()
    tp = fp = fn = 0
    with torch.no_grad():
        for words, lengths, tags in loader:
            pred = model(words, lengths).argmax(-1)
            real = tags != PAD_TAG
            p, t = pred[real], tags[real]
            tp += ((p == t) & (t > 0)).sum().item()
            fp += ((p != t) & (p > 0)).sum().item()
            fn += ((p != t) & (t > 0)).sum().item()
    return 2 * tp / max(1, 2 * tp + fp + fn)


def main():
    rng = random.Random(8)
    torch.manual_seed(8)
    train = [address(rng) for _ in range(2500)]
    dev = [address(rng) for _ in range(500)]
    vocab = Vocab(train)
    collate = make_collate(vocab)
    train_dl = DataLoader(train, batch_size=32, shuffle=True, collate_fn=collate)
    dev_dl = DataLoader(dev, batch_size=100, collate_fn=collate)
    model = Tagger(len(vocab.index))
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    loss_fn = nn.CrossEntropyLoss(ignore_index=PAD_TAG)
    for epoch in range(1, 7):
        model.train()
        total = 0.0
        for words, lengths, tags in train_dl:
            opt.zero_grad()
            loss = loss_fn(model(words, lengths).flatten(0, 1), tags.flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(train_dl):.4f} dev token F1 {score(model, dev_dl):.4f}")
    print(f"final dev token F1 {score(model, dev_dl):.4f}")


if __name__ == "__main__":
    main()
