"""Toy machine translation: a head-final target language with agreement, small transformer."""
import math
import random

import torch
import torch.nn as nn

PAD, BOS, EOS = 0, 1, 2
NOUNS = [f"n{i}" for i in range(10)]
VERBS = [f"v{i}" for i in range(6)]
ADJS = [f"a{i}" for i in range(6)]
SRC_WORDS = ["<pad>", "<s>", "</s>", "the", "not"] + NOUNS + VERBS + ADJS
TGT_WORDS = (["<pad>", "<s>", "</s>", "ka", "ki", "nai"]
             + [w.upper() for w in NOUNS] + [w.upper() for w in VERBS]
             + [w.upper() + g for w in ADJS for g in ("o", "i")])
SRC_ID = {w: i for i, w in enumerate(SRC_WORDS)}
TGT_ID = {w: i for i, w in enumerate(TGT_WORDS)}


def noun_phrase(rng):
    noun = rng.randrange(len(NOUNS))
    gender = "o" if noun % 2 else "i"
    adjs = rng.sample(range(len(ADJS)), rng.choice([0, 1]))
    src = ["the"] + [ADJS[a] for a in adjs] + [NOUNS[noun]]
    tgt = [NOUNS[noun].upper()] + [ADJS[a].upper() + gender for a in adjs]
    return src, tgt


def sentence(rng):
    s_src, s_tgt = noun_phrase(rng)
    o_src, o_tgt = noun_phrase(rng)
    verb = rng.randrange(len(VERBS))
    neg = rng.random() < 0.3
    src = s_src + (["not"] if neg else []) + [VERBS[verb]] + o_src
    tgt = s_tgt + ["ka"] + o_tgt + ["ki", VERBS[verb].upper()] + (["nai"] if neg else [])
    return src, tgt


def build_corpus(n, seed):
    rng = random.Random(seed)
    seen, rows = set(), []
    while len(rows) < n:
        src, tgt = sentence(rng)
        key = " ".join(src)
        if key in seen:
            continue
        seen.add(key)
        rows.append(([SRC_ID[w] for w in src] + [EOS], [BOS] + [TGT_ID[w] for w in tgt] + [EOS]))
    return rows


def pad_rows(rows):
    width = max(len(r) for r in rows)
    return torch.tensor([r + [PAD] * (width - len(r)) for r in rows])


def batches(data, size, rng=None):
    order = list(range(len(data)))
    if rng is not None:
        rng.shuffle(order)
    for i in range(0, len(order), size):
        part = [data[j] for j in order[i:i + size]]
        yield pad_rows([p[0] for p in part]), pad_rows([p[1] for p in part])


class Translator(nn.Module):
    def __init__(self, d=48, heads=4, layers=1, max_len=32):
        super().__init__()
        self.src_emb = nn.Embedding(len(SRC_WORDS), d, padding_idx=PAD)
        self.tgt_emb = nn.Embedding(len(TGT_WORDS), d, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(max_len, d) * 0.02)
        enc = nn.TransformerEncoderLayer(d, heads, 96, dropout=0.02, batch_first=True)
        dec = nn.TransformerDecoderLayer(d, heads, 96, dropout=0.02, batch_first=True)
        self.encoder = nn.TransformerEncoder(enc, layers, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(dec, layers)
        self.out = nn.Linear(d, len(TGT_WORDS))
        self.scale = math.sqrt(d)

    def forward(self, src, tgt):
        n = tgt.shape[1]
        mask = torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)
        s = self.src_emb(src) * self.scale + self.pos[:src.shape[1]]
        t = self.tgt_emb(tgt) * self.scale + self.pos[:n]
        memory = self.encoder(s, src_key_padding_mask=src == PAD)
        h = self.decoder(t, memory, tgt_mask=mask, memory_key_padding_mask=src == PAD)
        return self.out(h)


@torch.no_grad()
def greedy(model, src, max_len=14):
    out = torch.full((len(src), 1), BOS)
    done = torch.zeros(len(src), dtype=torch.bool)
    for _ in range(max_len):
        nxt = model(src, out)[:, -1].argmax(-1)
        nxt = torch.where(done, torch.full_like(nxt, PAD), nxt)
        out = torch.cat([out, nxt[:, None]], dim=1)
        done |= nxt == EOS
        if done.all():
            break
    return out


@torch.no_grad()
def validate(model, data, criterion):
    model.train(False)
    loss_sum = tokens = 0
    for src, tgt in batches(data, 128):
        logits = model(src, tgt[:, :-1])
        n = (tgt[:, 1:] != PAD).sum().item()
        loss_sum += criterion(logits.flatten(0, 1), tgt[:, 1:].flatten()).item() * n
        tokens += n
    return loss_sum / tokens


@torch.no_grad()
def exact_match(model, data):
    model.train(False)
    hits = 0
    for src, tgt in batches(data, 128):
        out = greedy(model, src)
        for o, t in zip(out.tolist(), tgt.tolist()):
            hits += [x for x in o if x != PAD] == [x for x in t if x != PAD]
    return hits / len(data)


def main():
    torch.manual_seed(3)
    corpus = build_corpus(2100, seed=5)
    train, val = corpus[:1900], corpus[1900:]
    model = Translator()
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    warmup = 120
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min((s + 1) / warmup, math.sqrt(warmup / (s + 1))))
    rng = random.Random(0)
    for epoch in range(1, 11):
        model.train()
        running, steps = 0.0, 0
        for src, tgt in batches(train, 32, rng):
            opt.zero_grad()
            logits = model(src, tgt[:, :-1])
            loss = criterion(logits.flatten(0, 1), tgt[:, 1:].flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            running += loss.item()
            steps += 1
        print(f"epoch {epoch:2d}  train loss {running / steps:.4f}  val loss {validate(model, val, criterion):.4f}")
    print(f"greedy exact match on validation: {exact_match(model, val):.3f}")


if __name__ == "__main__":
    main()
