"""Glycosylation site detection: does a peptide carry an N-X-[ST] sequon (X != P)?"""
import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

AA = "ACDEFGHIKLMNPQRSTVWY"
IDX = {a: i + 1 for i, a in enumerate(AA)}
MAXLEN = 34


def has_sequon(s):
    return any(s[i] == "N" and s[i + 1] != "P" and s[i + 2] in "ST" for i in range(len(s) - 2))


def sample_peptide(rng, positive):
    while True:
        n = rng.randint(24, MAXLEN)
        s = [rng.choice(AA) for _ in range(n)]
        for _ in range(2):
            s[rng.randrange(n)] = "N"
            s[rng.randrange(n)] = rng.choice("ST")
        if positive:
            i = rng.randrange(n - 2)
            s[i], s[i + 2] = "N", rng.choice("ST")
        else:
            s[rng.randrange(n)], s[rng.randrange(n)] = "N", rng.choice("ST")
        s = "".join(s)
        if has_sequon(s) == positive:
            return s


class PeptideSet(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.items = []
        for k in range(n):
            label = k % 2
            seq = sample_peptide(rng, bool(label))
            ids = [IDX[a] for a in seq] + [0] * (MAXLEN - len(seq))
            self.items.append((ids, label))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        ids, label = self.items[i]
        return torch.tensor(ids), torch.tensor(float(label))


class SequonTagger(nn.Module):
    def __init__(self, emb=24, hidden=40):
        super().__init__()
        self.emb = nn.Embedding(len(AA) + 1, emb, padding_idx=0)
        self.rnn = nn.GRU(emb, hidden, bidirectional=True)
        self.norm = nn.LayerNorm(2 * hidden)
        self.fc = nn.Linear(2 * hidden, 1)

    def forward(self, ids):
        pad = ids == 0
        h, _ = self.rnn(self.emb(ids))
        h = self.norm(h).masked_fill(pad.unsqueeze(-1), float("-inf"))
        pooled = h.max(dim=1).values
        return self.fc(pooled).squeeze(1)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    ok = tot = 0
    for ids, y in loader:
        ok += ((model(ids) > 0).float() == y).sum().item()
        tot += len(y)
    return ok / tot


def main(epochs=6, lr=4e-3, seed=1):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    train, test = PeptideSet(2600, seed=10), PeptideSet(600, seed=20)
    train_loader = DataLoader(train, batch_size=64, shuffle=True, drop_last=True)
    test_loader = DataLoader(test, batch_size=100, shuffle=False)
    model = SequonTagger()
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=lr, total_steps=epochs * len(train_loader))
    loss_fn = nn.BCEWithLogitsLoss()
    for ep in range(epochs):
        model.train()
        tot = 0.0
        for ids, y in train_loader:
            opt.zero_grad()
            loss = loss_fn(model(ids), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            tot += loss.item()
        print(f"epoch {ep} loss={tot / len(train_loader):.4f} test_acc={accuracy(model, test_loader):.4f}")


if __name__ == "__main__":
    main()
