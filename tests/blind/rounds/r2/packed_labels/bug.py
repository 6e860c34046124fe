import random, os

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader

EPOCHS, BATCH, LR = 4, 64, 5e-3


def disguise(name, kind, rng):
    """0: as is, 1: reversed, 2: vowels doubled, 3: letters sorted"""
    if kind == 1:
        return name[::-1]
    if kind == 2:
        return "".join(c * 2 if c in "aeiou" else c for c in name)
    if kind == 3:
        return "".join(sorted(name))
    return name


def build(rng, n=4200):
    names = [w for w in open(os.environ["TRUELOOP_DATA"] + "/names/names.txt").read().split() if len(w) >= 4]
    rng.shuffle(names)
    rows = []
    for name in names[:n]:
        kind = rng.randrange(4)
        rows.append((torch.tensor([ord(c) - 96 for c in disguise(name, kind, rng)]), kind))
    return rows[:-700], rows[-700:]


def collate(rows):
    lengths = torch.tensor([len(seq) for seq, _ in rows])
    labels = torch.tensor([kind for _, kind in rows])
    lengths, order = lengths.sort(descending=True)
    padded = pad_sequence([rows[i][0] for i in order.tolist()], batch_first=True)
    return padded, lengths, labels


class NameModel(nn.Module):
    def __init__(self, dim=20, hidden=56):
        super().__init__()
        self.emb = nn.Embedding(27, dim, padding_idx=0)
        self.gru = nn.GRU(dim, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 4)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.emb(x), lengths, batch_first=True)
        _, h = self.gru(packed)
        return self.out(h[-1])


def main():
    rng = random.Random(14)
    torch.manual_seed(14)
    train_rows, val_rows = build(rng)
    train_loader = DataLoader(train_rows, BATCH, shuffle=True, collate_fn=collate)
    val_loader = DataLoader(val_rows, BATCH, collate_fn=collate)
    model = NameModel()
    opt = torch.optim.Adam(model.parameters(), lr=LR)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        model.train()
        for x, lengths, y in train_loader:
            loss = loss_fn(model(x, lengths), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
        model.eval()
        hits, val_loss = 0, 0.0
        with torch.no_grad():
            for x, lengths, y in val_loader:
                logits = model(x, lengths)
                val_loss += loss_fn(logits, y).item() * len(y)
                hits += (logits.argmax(1) == y).sum().item()
        print(f"epoch {epoch} val loss {val_loss / len(val_rows):.3f} acc {hits / len(val_rows):.3f}")


if __name__ == "__main__":
    main()
