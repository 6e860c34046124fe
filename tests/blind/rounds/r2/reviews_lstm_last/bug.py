import torch, os
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

SEED, EPOCHS, BATCH, LR, MAX_LEN = 11, 3, 50, 5e-3, 40
torch.manual_seed(SEED)
ROOT = os.environ["TRUELOOP_DATA"] + "/movie-reviews/rt-polarity"


def read(suffix, label):
    with open(f"{ROOT}.{suffix}", encoding="latin-1") as f:
        return [(line.split(), label) for line in f]


def load():
    rows = read("pos", 1) + read("neg", 0)
    order = torch.randperm(len(rows)).tolist()
    rows = [rows[i] for i in order]
    return rows[:4000], rows[4000:4700]


def build_vocab(rows, size=4000):
    counts = {}
    for words, _ in rows:
        for w in words:
            counts[w] = counts.get(w, 0) + 1
    keep = sorted(counts, key=lambda w: (-counts[w], w))[:size]
    return {w: i + 2 for i, w in enumerate(keep)}


class Collate:
    def __init__(self, vocab):
        self.vocab = vocab

    def __call__(self, rows):
        seqs = [torch.tensor([self.vocab.get(w, 1) for w in words[:MAX_LEN]]) for words, _ in rows]
        lengths = torch.tensor([len(s) for s in seqs])
        x = pad_sequence(seqs, batch_first=True)
        x = nn.functional.pad(x, (0, MAX_LEN - x.size(1)))
        return x, lengths, torch.tensor([y for _, y in rows])


class Polarity(nn.Module):
    def __init__(self, vocab_size, emb=32, hidden=32):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, emb, padding_idx=0)
        self.drop = nn.Dropout(0.3)
        self.lstm = nn.LSTM(emb, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, 2)

    def forward(self, x, lengths):
        out, _ = self.lstm(self.drop(self.emb(x)))
        last = out[:, -1]
        return self.fc(self.drop(last))


def accuracy(model, loader):
    model.eval()
    hits = n = 0
    with torch.no_grad():
        for x, lengths, y in loader:
            hits += (model(x, lengths).argmax(1) == y).sum().item()
            n += len(y)
    return hits / n


def main():
    train, val = load()
    vocab = build_vocab(train)
    collate = Collate(vocab)
    train_loader = DataLoader(train, BATCH, shuffle=True, collate_fn=collate)
    val_loader = DataLoader(val, 200, collate_fn=collate)
    model = Polarity(len(vocab) + 2)
    opt = torch.optim.Adam(model.parameters(), lr=LR)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for x, lengths, y in train_loader:
            opt.zero_grad()
            loss = loss_fn(model(x, lengths), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(train_loader):.3f} val acc {accuracy(model, val_loader):.3f}")


main()
