import math
import random

import torch
import torch.nn as nn

random.seed(0)
torch.manual_seed(0)

NOUNS = dict(dog="Hund", cat="Katze", bird="Vogel", child="Kind", man="Mann", woman="Frau", teacher="Lehrer", horse="Pferd")
ADJS = dict(small="klein", old="alt", red="rot", quiet="leise", young="jung", clever="klug")
VERBS = dict(sees="sehen", hears="hören", follows="folgen", finds="finden", likes="mögen", calls="rufen")
TIMES = dict(today="heute", often="oft", never="nie", now="jetzt")


def noun_phrase():
    n, a = random.choice(list(NOUNS)), random.choice(list(ADJS) + [None] * 3)
    en = ["the"] + ([a] if a else []) + [n]
    de = ["das", NOUNS[n]] + ([ADJS[a]] if a else [])
    return en, de


def pair():
    s_en, s_de = noun_phrase()
    o_en, o_de = noun_phrase()
    v, t = random.choice(list(VERBS)), random.choice(list(TIMES) + [None])
    en = s_en + [v] + o_en + ([t] if t else [])
    de = ([TIMES[t]] if t else []) + s_de + o_de + [VERBS[v]]
    return en, de


SPECIAL = ["<pad>", "<bos>", "<eos>"]
src_vocab = {w: i for i, w in enumerate(SPECIAL + ["the"] + list(NOUNS) + list(ADJS) + list(VERBS) + list(TIMES))}
tgt_vocab = {w: i for i, w in enumerate(SPECIAL + ["das"] + list(NOUNS.values()) + list(ADJS.values()) + list(VERBS.values()) + list(TIMES.values()))}
S_LEN, T_LEN = 10, 11


def encode(words, vocab, length, bos=False):
    ids = ([1] if bos else []) + [vocab[w] for w in words] + [2]
    return ids + [0] * (length - len(ids))


seen, data = set(), []
while len(data) < 2300:
    en, de = pair()
    if " ".join(en) not in seen:
        seen.add(" ".join(en))
        data.append((encode(en, src_vocab, S_LEN), encode(de, tgt_vocab, T_LEN + 1, bos=True)))
src = torch.tensor([d[0] for d in data])
tgt = torch.tensor([d[1] for d in data])
src_tr, tgt_tr, src_te, tgt_te = src[:2000], tgt[:2000], src[2000:], tgt[2000:]


class Translator(nn.Module):
    def __init__(self, d=48, heads=4):
        super().__init__()
        self.d = d
        self.src_emb = nn.Embedding(len(src_vocab), d, padding_idx=0)
        self.tgt_emb = nn.Embedding(len(tgt_vocab), d, padding_idx=0)
        self.pos = nn.Parameter(torch.randn(16, d) * 0.1)
        self.enc = nn.TransformerEncoderLayer(d, heads, 96, dropout=0.0, batch_first=True)
        self.dec = nn.TransformerDecoderLayer(d, heads, 96, dropout=0.0, batch_first=True)
        self.out = nn.Linear(d, len(tgt_vocab))

    def embed(self, emb, ids):
        return emb(ids) * math.sqrt(self.d) * 0.3 + self.pos[:ids.size(1)]

    def encode(self, s):
        return self.enc(self.embed(self.src_emb, s), src_key_padding_mask=s == 0)

    def decode(self, t, memory, s):
        n = t.size(1)
        mask = torch.tril(torch.ones(n, n))
        h = self.dec(self.embed(self.tgt_emb, t), memory, tgt_mask=mask, memory_key_padding_mask=s == 0)
        return self.out(h)


@torch.no_grad()
def translate(model, s):
    model.eval()
    memory = model.encode(s)
    out = torch.ones(len(s), 1, dtype=torch.long)
    done = torch.zeros(len(s), dtype=torch.bool)
    for _ in range(T_LEN):
        nxt = model.decode(out, memory, s)[:, -1].argmax(-1).masked_fill(done, 0)
        done |= nxt == 2
        out = torch.cat([out, nxt[:, None]], 1)
    return out


model = Translator()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
criterion = nn.CrossEntropyLoss(ignore_index=0)
for epoch in range(6):
    model.train()
    total, steps = 0.0, 0
    for idx in torch.randperm(len(src_tr)).split(50):
        s, t = src_tr[idx], tgt_tr[idx]
        logits = model.decode(t[:, :-1], model.encode(s), s)
        loss = criterion(logits.reshape(-1, logits.size(-1)), t[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total, steps = total + loss.item(), steps + 1
    print(f"epoch {epoch + 1}: loss {total / steps:.4f}")

hyp = translate(model, src_te)
exact = (hyp == tgt_te).all(1).float().mean().item()
print(f"held-out sentences translated exactly: {exact:.4f}")
