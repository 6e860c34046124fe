import math
import random

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD, CLS = 0, 1
VOCAB = 60
ANGRY = set(range(10, 20))
HAPPY = set(range(20, 30))


class Tickets(Dataset):
    """Support tickets as token ids; label says whether angry words outnumber happy ones."""

    def __init__(self, n, seed):
        rnd = random.Random(seed)
        self.rows = []
        while len(self.rows) < n:
            length = rnd.randint(6, 22)
            toks = [rnd.randint(10, VOCAB - 1) if rnd.random() < 0.5 else rnd.randint(10, 29) for _ in range(length)]
            score = sum(t in ANGRY for t in toks) - sum(t in HAPPY for t in toks)
            if score == 0:
                continue
            self.rows.append(([CLS] + toks, int(score > 0)))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        toks, label = self.rows[i]
        return torch.tensor(toks), label


def collate(batch):
    seqs, labels = zip(*batch)
    ids = pad_sequence(list(seqs) + [torch.zeros(24, dtype=torch.long)], batch_first=True, padding_value=PAD)[:-1]
    return ids, torch.tensor(labels)


class TicketEncoder(nn.Module):
    def __init__(self, d=32, heads=4, layers=2):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(24, d) / math.sqrt(d))
        layer = nn.TransformerEncoderLayer(d, heads, 64, dropout=0.1, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.cls = nn.Linear(d, 2)

    def forward(self, ids):
        mask = ids.eq(PAD)
        h = self.emb(ids) + self.pos[: ids.shape[1]]
        h = self.enc(h, src_key_padding_mask=mask)
        return self.cls(h[:, 0])


def evaluate(model, loader):
    model.eval()
    hit = n = 0
    with torch.no_grad():
        for ids, lab in loader:
            hit += (model(ids).argmax(-1) == lab).sum().item()
            n += len(lab)
    return hit / n


def main():
    torch.manual_seed(0)
    train = DataLoader(Tickets(2000, 1), batch_size=64, shuffle=True, collate_fn=collate)
    test = DataLoader(Tickets(600, 2), batch_size=128, collate_fn=collate)
    model = TicketEncoder()
    opt = torch.optim.AdamW(model.parameters(), lr=1.5e-3)
    crit = nn.CrossEntropyLoss()
    for ep in range(4):
        model.train()
        tot = 0.0
        for ids, lab in train:
            opt.zero_grad()
            loss = crit(model(ids), lab)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            tot += loss.item()
        print(f"epoch {ep}: loss {tot / len(train):.3f} test acc {evaluate(model, test):.3f}")


main()
