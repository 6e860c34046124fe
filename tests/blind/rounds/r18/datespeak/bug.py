"""Turn spoken dates into ISO strings: 'the third of march 2017' -> '2017-03-03'.
A small encoder-decoder, word pieces in, characters out. Precision follows the phrase (day, month or year)."""
import random
from dataclasses import dataclass

import torch
import torch.nn as nn

MONTHS = "january february march april may june july august september october november december".split()
ORD = ("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
       "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth").split()
ORD += ["twenty-" + w for w in ORD[:9]] + ["thirtieth", "thirty-first"]


@dataclass
class Config:
    n_train: int = 3400
    n_test: int = 400
    dim: int = 64
    batch: int = 64
    epochs: int = 5
    lr: float = 5e-3
    seed: int = 3


def phrase(rng):
    y, m, d = rng.randint(1990, 2029), rng.randint(1, 12), rng.randint(1, 28)
    year = f"{y // 100} {y % 100:02d}"
    mon = MONTHS[m - 1] if rng.random() < 0.6 else MONTHS[m - 1][:3]
    kind = rng.random()
    if kind < 0.12:
        return rng.choice([f"in {mon} {year}", f"{mon} {year}"]), f"{y}-{m:02d}"
    if kind < 0.2:
        return rng.choice([f"in {year}", f"the year {year}"]), f"{y}"
    day = rng.choice([ORD[d - 1], str(d)])
    forms = [f"the {day} of {mon} {year}", f"{mon} {day} {year}", f"{day} {mon} {year}", f"on {mon} {day} in {year}"]
    return rng.choice(forms), f"{y}-{m:02d}-{d:02d}"


CHARS = "0123456789-"
STOI = {c: i for i, c in enumerate(CHARS)}
PAD, BOS, EOS = 0, len(CHARS) + 1, len(CHARS) + 2
N_OUT = len(CHARS) + 3


def encode(pairs, vocab):
    src = [[vocab.get(w, 1) for w in p.split()] for p, _ in pairs]
    tgt = [[BOS] + [STOI[c] for c in t] + [EOS] for _, t in pairs]
    S, T = max(map(len, src)), max(map(len, tgt))
    xs = torch.zeros(len(pairs), S, dtype=torch.long)
    ys = torch.full((len(pairs), T), PAD)
    for i, (a, b) in enumerate(zip(src, tgt)):
        xs[i, : len(a)] = torch.tensor(a)
        ys[i, : len(b)] = torch.tensor(b)
    return xs, ys


class Seq2Seq(nn.Module):
    def __init__(self, n_in, d):
        super().__init__()
        self.emb = nn.Embedding(n_in, d, padding_idx=0)
        self.enc = nn.GRU(d, d, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * d, d)
        self.key = nn.Linear(2 * d, d)
        self.cemb = nn.Embedding(N_OUT, d)
        self.dec = nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(2 * d, N_OUT)

    def encode(self, x):
        h, last = self.enc(self.emb(x))
        return self.key(h), x == 0, torch.tanh(self.bridge(torch.cat([last[0], last[1]], 1))).unsqueeze(0)

    def decode(self, mem, pad, state, y):
        o, state = self.dec(self.cemb(y), state)
        att = (o @ mem.transpose(1, 2)).masked_fill(pad.unsqueeze(1), -1e9).softmax(-1)
        return self.out(torch.cat([o, att @ mem], -1)), state

    def forward(self, x, y):
        mem, pad, st = self.encode(x)
        return self.decode(mem, pad, st, y)[0]

    @torch.no_grad()
    def generate(self, x, steps=11):
        mem, pad, st = self.encode(x)
        tok = torch.full((len(x), 1), BOS)
        res = []
        for _ in range(steps):
            lo, st = self.decode(mem, pad, st, tok)
            tok = lo.argmax(-1)
            res.append(tok)
        return torch.cat(res, 1)


def text(ids):
    itos = {i: c for c, i in STOI.items()}
    s = ""
    for i in ids.tolist():
        if i == EOS:
            break
        s += itos.get(i, "?")
    return s


def main(cfg):
    rng = random.Random(cfg.seed)
    torch.manual_seed(cfg.seed)
    train = [phrase(rng) for _ in range(cfg.n_train)]
    seen = {p for p, _ in train}
    test = []
    while len(test) < cfg.n_test:
        p = phrase(rng)
        if p[0] not in seen:
            test.append(p)
    words = sorted({w for p, _ in train for w in p.split()})
    vocab = {w: i + 2 for i, w in enumerate(words)}
    X, Y = encode(train, vocab)
    Xt, _ = encode(test, vocab)
    net = Seq2Seq(len(vocab) + 2, cfg.dim)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.65)
    lossf = nn.CrossEntropyLoss(ignore_index=PAD)
    for ep in range(cfg.epochs):
        tot, n = 0.0, 0
        for idx in torch.randperm(len(X)).split(cfg.batch):
            logits = net(X[idx], Y[idx, :-1])
            loss = lossf(logits.flatten(0, 1), Y[idx, 1:].flatten())
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            tot, n = tot + loss.item(), n + 1
        sched.step()
        print(f"epoch {ep} loss {tot / n:.4f}")
    out = net.generate(Xt)
    ok = sum(text(o) == t for o, (_, t) in zip(out, test)) / len(test)
    print(f"exact match {ok:.3f}")


if __name__ == "__main__":
    main(Config())
