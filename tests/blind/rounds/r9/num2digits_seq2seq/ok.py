"""Transduce spelled-out numbers ("forty two thousand and seven") into digit strings."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

SEED, EPOCHS, BATCH, HID = 7, 4, 64, 64
ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen").split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()


def spell(n):
    if n < 20:
        return [ONES[n]]
    if n < 100:
        return [TENS[n // 10]] + ([ONES[n % 10]] if n % 10 else [])
    if n < 1000:
        return [ONES[n // 100], "hundred"] + (["and"] + spell(n % 100) if n % 100 else [])
    rest = n % 1000
    tail = (["and"] if rest < 100 else []) + spell(rest) if rest else []
    return spell(n // 1000) + ["thousand"] + tail


class TargetTokenizer:
    """Digits plus the two control symbols; rows are padded with the end symbol."""
    bos_id, eos_id = 10, 11
    pad_id = eos_id
    size = 12

    def encode(self, text):
        return [int(c) for c in text] + [self.eos_id]

    def decode(self, ids):
        out = []
        for i in ids:
            if i == self.eos_id:
                break
            out.append(str(i) if i < 10 else "?")
        return "".join(out)


src_words = sorted(set(ONES + TENS[2:] + ["hundred", "thousand", "and"]))
src_id = {w: i + 1 for i, w in enumerate(src_words)}
tok = TargetTokenizer()


def collate(numbers):
    src = [torch.tensor([src_id[w] for w in spell(n)]) for n in numbers]
    tgt = [torch.tensor(tok.encode(str(n))) for n in numbers]
    src = pad_sequence(src, batch_first=True)
    tgt_len = torch.tensor([len(t) for t in tgt])
    tgt = pad_sequence(tgt, batch_first=True, padding_value=tok.pad_id)
    dec_in = torch.cat([torch.full((len(tgt), 1), tok.bos_id), tgt[:, :-1]], 1)
    is_pad = torch.arange(tgt.size(1))[None] >= tgt_len[:, None]
    labels = tgt.masked_fill(is_pad, -100)
    return src, dec_in, labels


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.src_emb = nn.Embedding(len(src_id) + 1, 48, padding_idx=0)
        self.tgt_emb = nn.Embedding(tok.size, 48)
        self.enc = nn.GRU(48, HID // 2, batch_first=True, bidirectional=True)
        self.dec = nn.GRU(48, HID, batch_first=True)
        self.query = nn.Linear(HID, HID)
        self.out = nn.Sequential(nn.Linear(2 * HID, HID), nn.Tanh(), nn.Linear(HID, tok.size))

    def encode(self, src):
        memory, h = self.enc(self.src_emb(src))
        return memory, src.eq(0), torch.cat([h[0], h[1]], -1)[None]

    def step(self, dec_in, memory, pad, h):
        y, h = self.dec(self.tgt_emb(dec_in), h)
        score = self.query(y) @ memory.transpose(1, 2) / HID ** 0.5
        attn = score.masked_fill(pad[:, None], float("-inf")).softmax(-1)
        return self.out(torch.cat([y, attn @ memory], -1)), h

    def forward(self, src, dec_in):
        memory, pad, h = self.encode(src)
        return self.step(dec_in, memory, pad, h)[0]

    @torch.no_grad()
    def translate(self, src, max_len=8):
        memory, pad, h = self.encode(src)
        cur, outs = torch.full((len(src), 1), tok.bos_id), []
        for _ in range(max_len):
            logits, h = self.step(cur, memory, pad, h)
            cur = logits.argmax(-1)
            outs.append(cur)
        return [tok.decode(row) for row in torch.cat(outs, 1).tolist()]


def main():
    random.seed(SEED), np.random.seed(SEED), torch.manual_seed(SEED)
    pool = set(random.sample(range(1000), 500)) | set(random.sample(range(100000), 3000))
    pool = sorted(pool)
    random.shuffle(pool)
    train, valid = pool[400:], pool[:400]
    loader = DataLoader(train, BATCH, shuffle=True, collate_fn=collate)
    vloader = DataLoader(valid, 200, collate_fn=collate)
    model = Seq2Seq()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 8e-3, total_steps=EPOCHS * len(loader))
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for src, dec_in, labels in loader:
            loss = F.cross_entropy(model(src, dec_in).flatten(0, 1), labels.flatten(), ignore_index=-100)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            total += loss.item()
        model.eval()
        vloss, hyps = 0.0, []
        with torch.no_grad():
            for src, dec_in, labels in vloader:
                vloss += F.cross_entropy(model(src, dec_in).flatten(0, 1), labels.flatten(), ignore_index=-100).item()
                hyps += model.translate(src)
        exact = np.mean([h == str(n) for h, n in zip(hyps, valid)])
        print(f"epoch {epoch}: loss {total / len(loader):.4f} valid {vloss / len(vloader):.4f} exact match {exact:.3f}")
    for n, h in list(zip(valid, hyps))[:5]:
        print(" ".join(spell(n)), "->", h)


if __name__ == "__main__":
    main()
