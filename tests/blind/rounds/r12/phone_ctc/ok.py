import random

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PHONES = ["aa", "b", "ch", "d", "iy", "m", "s", "uw"]
MEL = 20
BLANK = 0
stoi = {p: i for i, p in enumerate(PHONES, 1)}
itos = {i: p for p, i in stoi.items()}


class Spoken(Dataset):
    """Filter-bank frames of short phone strings: every phone has a spectral shape and a varying duration."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        shapes = np.random.default_rng(77).normal(0, 1, (len(PHONES), MEL))
        self.items = []
        for _ in range(n):
            ids = rng.integers(0, len(PHONES), rng.integers(3, 7))
            tilt = rng.normal(0, 0.5) * np.linspace(-1, 1, MEL)
            frames = []
            for k in ids:
                d = rng.integers(4, 9)
                env = np.sin(np.pi * (np.arange(d) + 0.5) / d)[:, None]
                frames.append(env * shapes[k] + tilt)
            x = np.concatenate(frames) + rng.normal(0, 0.5, (sum(map(len, frames)), MEL))
            self.items.append((torch.tensor(x, dtype=torch.float32), [PHONES[k] for k in ids]))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    xs, texts = zip(*batch)
    targets = [torch.tensor([stoi[p] for p in t]) for t in texts]
    return (pad_sequence(xs, batch_first=True), torch.tensor([len(x) for x in xs]),
            torch.cat(targets), torch.tensor([len(t) for t in targets]), texts)


class Acoustic(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.front = nn.Conv1d(MEL, hidden, 3, padding=1)
        self.rnn = nn.GRU(hidden, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, len(PHONES) + 1)

    def forward(self, x, lens):
        h = torch.relu(self.front(x.transpose(1, 2))).transpose(1, 2)
        h = nn.utils.rnn.pack_padded_sequence(h, lens, batch_first=True, enforce_sorted=False)
        h, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(h)[0], batch_first=True)
        return self.out(h).log_softmax(-1)


def greedy(logp, n):
    best = logp[:n].argmax(-1).tolist()
    out, last = [], None
    for k in best:
        if k != last and k != BLANK:
            out.append(itos[k])
        last = k
    return out


def edits(a, b):
    row = list(range(len(b) + 1))
    for i, p in enumerate(a, 1):
        prev, row[0] = row[0], i
        for j, q in enumerate(b, 1):
            prev, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, prev + (p != q))
    return row[-1]


def error_rate(model, loader):
    model.eval()
    wrong = total = 0
    with torch.no_grad():
        for x, lens, _, _, texts in loader:
            for lp, n, ref in zip(model(x, lens), lens, texts):
                wrong += edits(greedy(lp, n), list(ref))
                total += len(ref)
    model.train()
    return wrong / total


random.seed(1)
torch.manual_seed(1)
train = DataLoader(Spoken(800, 10), batch_size=32, shuffle=True, collate_fn=collate)
test = DataLoader(Spoken(250, 11), batch_size=64, collate_fn=collate)
model = Acoustic()
ctc = nn.CTCLoss(blank=BLANK, zero_infinity=True)
opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, 6e-3, total_steps=7 * len(train))
for epoch in range(7):
    running = 0.0
    for x, lens, y, ylens, _ in train:
        opt.zero_grad()
        loss = ctc(model(x, lens).transpose(0, 1), y, lens, ylens)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        sched.step()
        running += loss.item()
    print(f"epoch {epoch + 1}: ctc {running / len(train):.3f}")
print(f"test phone error rate {error_rate(model, test):.4f}")
