"""Small attention seq2seq translator; reads parallel text and ready-made vocabularies from a folder."""
import json
import sys
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, BOS, EOS, UNK = range(4)


class Vocab:
    def __init__(self, path):
        self.words = json.loads(path.read_text())
        self.index = {w: i for i, w in enumerate(self.words)}

    def __len__(self):
        return len(self.words)

    def ids(self, line):
        return [self.index.get(w, UNK) for w in line.split()]


def pad(seqs):
    n = max(map(len, seqs))
    return torch.tensor([s + [PAD] * (n - len(s)) for s in seqs])


class Translator(nn.Module):
    def __init__(self, n_src, n_tgt, d=48):
        super().__init__()
        self.src = nn.Embedding(n_src, d, padding_idx=PAD)
        self.tgt = nn.Embedding(n_tgt, d, padding_idx=PAD)
        self.enc = nn.GRU(d, d, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * d, d)
        self.dec = nn.GRU(d, d, batch_first=True)
        self.query = nn.Linear(d, 2 * d)
        self.out = nn.Linear(3 * d, n_tgt)

    def encode(self, src):
        memory, h = self.enc(self.src(src))
        start = torch.tanh(self.bridge(torch.cat([h[0], h[1]], 1)))[None]
        return memory, src == PAD, start

    def decode(self, memory, blank, state, inp):
        h, state = self.dec(self.tgt(inp), state)
        att = self.query(h) @ memory.transpose(1, 2)
        att = att.masked_fill(blank[:, None], -1e9).softmax(-1)
        return self.out(torch.cat([h, att @ memory], -1)), state

    def forward(self, src, inp):
        return self.decode(*self.encode(src), inp)[0]

    @torch.no_grad()
    def translate(self, src, limit=14):
        memory, blank, state = self.encode(src)
        tok = torch.full((len(src), 1), BOS)
        out = []
        for _ in range(limit):
            logits, state = self.decode(memory, blank, state, tok)
            tok = logits.argmax(-1)
            out.append(tok)
        return torch.cat(out, 1).tolist()


def corpus(folder, split):
    read = lambda ext: (folder / f"{split}.{ext}").read_text().splitlines()
    return list(zip(read("en"), read("de")))


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(3)
    en, de = Vocab(folder / "vocab.en.json"), Vocab(folder / "vocab.de.json")
    train, test = corpus(folder, "train"), corpus(folder, "test")
    src = [en.ids(a) + [EOS] for a, _ in train]
    tgt = [[BOS] + de.ids(b) + [EOS] for _, b in train]
    model = Translator(len(en), len(de))
    opt = torch.optim.Adam(model.parameters(), lr=4e-3, betas=(0.9, 0.98))
    sched = torch.optim.lr_scheduler.StepLR(opt, 5, 0.5)
    for epoch in range(9):
        model.train()
        total = count = 0
        for idx in torch.randperm(len(train)).split(32):
            s = pad([src[i] for i in idx])
            t = pad([tgt[i] for i in idx])
            logits = model(s, t[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), t[:, 1:].flatten(), ignore_index=PAD)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total, count = total + loss.item() * len(idx), count + len(idx)
        sched.step()
        print(f"epoch {epoch + 1:2d} loss {total / count:.4f}")
    model.eval()
    right = words = 0
    for hyp, (_, ref) in zip(model.translate(pad([en.ids(a) + [EOS] for a, _ in test])), test):
        hyp = hyp[:hyp.index(EOS)] if EOS in hyp else hyp
        hyp, ref = [de.words[k] for k in hyp], ref.split()
        right += sum(a == b for a, b in zip(hyp, ref))
        words += max(len(hyp), len(ref))
    print(f"test words in place {right / words:.4f}")


if __name__ == "__main__":
    main()
