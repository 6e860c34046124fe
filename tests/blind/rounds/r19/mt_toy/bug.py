"""Toy translation: SVO with prenominal adjectives -> SOV with postnominal adjectives and case endings."""
import argparse
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, BOS, EOS = 0, 1, 2
NOUNS = [f"n{i}" for i in range(20)]
VERBS = [f"v{i}" for i in range(12)]
ADJS = [f"a{i}" for i in range(10)]
PREPS = ["in", "on"]
SRC = ["<pad>", "<s>", "</s>", "the"] + NOUNS + VERBS + ADJS + PREPS
TGT = (["<pad>", "<s>", "</s>", "-nom", "-acc", "-loc"] + [w.upper() for w in NOUNS + VERBS + ADJS]
       + ["IN", "ON"])
S2I = {w: i for i, w in enumerate(SRC)}
T2I = {w: i for i, w in enumerate(TGT)}


def noun_phrase(rng, case):
    noun = rng.choice(NOUNS)
    adj = [rng.choice(ADJS)] if rng.random() < 0.5 else []
    return ["the"] + adj + [noun], [noun.upper(), case] + [a.upper() for a in adj]


def sentence(rng):
    s_src, s_tgt = noun_phrase(rng, "-nom")
    o_src, o_tgt = noun_phrase(rng, "-acc")
    verb = rng.choice(VERBS)
    src, tgt = s_src + [verb] + o_src, s_tgt + o_tgt
    if rng.random() < 0.4:
        prep = rng.choice(PREPS)
        l_src, l_tgt = noun_phrase(rng, "-loc")
        src = src + [prep] + l_src
        tgt = l_tgt + [prep.upper()] + tgt
    return src, tgt + [verb.upper()]


def collate(pairs):
    def pad(seqs):
        n = max(map(len, seqs))
        return torch.tensor([s + [PAD] * (n - len(s)) for s in seqs])
    src = pad([[S2I[w] for w in s] + [EOS] for s, _ in pairs])
    tgt = pad([[BOS] + [T2I[w] for w in t] + [EOS] for _, t in pairs])
    return src, tgt


def look_ahead_mask(n):
    return torch.tril(torch.ones(n, n, dtype=torch.bool), diagonal=-1)


class Translator(nn.Module):
    def __init__(self, d=64, heads=4, layers=1, ff=128, max_len=40):
        super().__init__()
        self.src_emb = nn.Embedding(len(SRC), d, padding_idx=PAD)
        self.tgt_emb = nn.Embedding(len(TGT), d, padding_idx=PAD)
        self.pos = nn.Embedding(max_len, d)
        self.core = nn.Transformer(d, heads, layers, layers, ff, dropout=0.0, batch_first=True)
        self.out = nn.Linear(d, len(TGT))
        self.scale = math.sqrt(d)

    def embed(self, table, ids):
        return table(ids) * self.scale + self.pos(torch.arange(ids.size(1)))

    def forward(self, src, tgt_in):
        src_pad, tgt_pad = src == PAD, tgt_in == PAD
        h = self.core(self.embed(self.src_emb, src), self.embed(self.tgt_emb, tgt_in),
                      tgt_mask=look_ahead_mask(tgt_in.size(1)),
                      src_key_padding_mask=src_pad, memory_key_padding_mask=src_pad)
        return self.out(h)

    @torch.no_grad()
    def greedy(self, src, max_len=20):
        ids = torch.full((src.size(0), 1), BOS)
        for _ in range(max_len):
            nxt = self(src, ids)[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat([ids, nxt], 1)
        return ids[:, 1:]


def exact_match(model, pairs):
    model.eval()
    src, tgt = collate(pairs)
    hyp = model.greedy(src)
    good = 0
    for h, t in zip(hyp.tolist(), tgt[:, 1:].tolist()):
        h = h[:h.index(EOS)] if EOS in h else h
        good += h == t[:t.index(EOS)]
    return good / len(pairs)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=340)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args()
    torch.manual_seed(a.seed)
    rng = random.Random(a.seed)
    corpus = [sentence(rng) for _ in range(8000)]
    seen = {" ".join(s) for s, _ in corpus}
    test = [q for q in (sentence(rng) for _ in range(600)) if " ".join(q[0]) not in seen][:300]
    model = Translator()
    opt = torch.optim.Adam(model.parameters(), lr=a.lr, betas=(0.9, 0.98))
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min((s + 1) / 60, max(0.05, 1 - s / a.steps)))
    for step in range(a.steps):
        model.train()
        src, tgt = collate(rng.sample(corpus, a.batch))
        logits = model(src, tgt[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, len(TGT)), tgt[:, 1:].reshape(-1), ignore_index=PAD)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if (step + 1) % 100 == 0:
            print(f"step {step + 1} loss {loss.item():.4f}")
    print(f"test sentences {len(test)}  exact match {exact_match(model, test):.4f}")


if __name__ == "__main__":
    main()
