import math, os
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

random.seed(3)
torch.manual_seed(3)
PAD, BOS, EOS = 0, 1, 2
MAXLEN = 17

names = open(os.environ["TRUELOOP_DATA"] + "/names/names.txt").read().split()
random.shuffle(names)
names = [n for n in names if len(n) < MAXLEN - 1][:4600]
stoi = {c: i + 3 for i, c in enumerate("abcdefghijklmnopqrstuvwxyz")}


def encode(name):
    ids = [BOS] + [stoi[c] for c in name] + [EOS]
    return ids + [PAD] * (MAXLEN + 1 - len(ids))


table = torch.tensor([encode(n) for n in names])
train_loader = DataLoader(TensorDataset(table[:4000]), batch_size=64, shuffle=True)
val_loader = DataLoader(TensorDataset(table[4000:]), batch_size=600)


class NameGRU(nn.Module):
    def __init__(self, vocab=29, emb=24, hidden=96):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.gru = nn.GRU(emb, hidden, batch_first=True)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, x):
        return self.out(self.gru(self.emb(x))[0])


def nll(model, seq):
    logits = model(seq[:, :-1])
    target = seq[:, 1:]
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


@torch.no_grad()
def sample(model, n=4):
    model.eval()
    out = []
    for _ in range(n):
        ids, word = torch.tensor([[BOS]]), ""
        for _ in range(MAXLEN):
            p = model(ids)[0, -1].softmax(-1)
            k = torch.multinomial(p, 1).item()
            if k < 3:
                break
            word += chr(ord("a") + k - 3)
            ids = torch.cat([ids, torch.tensor([[k]])], 1)
        out.append(word)
    return out


model = NameGRU()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(1, 4):
    model.train()
    for (seq,) in train_loader:
        loss = nll(model, seq)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
    model.eval()
    with torch.no_grad():
        val = sum(nll(model, seq).item() for (seq,) in val_loader) / len(val_loader)
    print(" ".join(sample(model)))
    print(f"epoch {epoch} val bits per character {val / math.log(2):.3f}")
