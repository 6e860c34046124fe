import os
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, BOS, EOS = 0, 1, 2
L = 8


def lines(folder, name):
    return [l.split() for l in open(os.path.join(folder, name)).read().splitlines()]


def vocab(sents):
    return {w: i + 3 for i, w in enumerate(sorted({w for s in sents for w in s}))}


def tensor(sents, v, bos=False):
    out = torch.zeros(len(sents), L, dtype=torch.long)
    for r, s in enumerate(sents):
        ids = ([BOS] if bos else []) + [v[w] for w in s] + [EOS]
        out[r, :len(ids)] = torch.tensor(ids)
    return out


class Seq2Seq(nn.Module):
    def __init__(self, ns, nt, d=48):
        super().__init__()
        self.es, self.et = nn.Embedding(ns, d, padding_idx=PAD), nn.Embedding(nt, d, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(L, d) * 0.1)
        self.dec = nn.GRU(d, d, batch_first=True)
        self.k, self.q, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.out = nn.Linear(2 * d, nt)

    def forward(self, src, tin):
        m = self.es(src) + self.pos
        h, _ = self.dec(self.et(tin), m.mean(1)[None].contiguous())
        a = self.q(h) @ self.k(m).transpose(1, 2) / 7.0
        a = a.masked_fill((src == PAD)[:, None], -1e9).softmax(-1)
        return self.out(torch.cat([h, a @ self.v(m)], -1))

    @torch.no_grad()
    def greedy(self, src):
        cur = torch.full((len(src), 1), BOS)
        for _ in range(L - 1):
            cur = torch.cat([cur, self(src, cur)[:, -1:].argmax(-1)], 1)
        return cur[:, 1:]


def main(folder):
    torch.manual_seed(1)
    s, t = lines(folder, "train.src"), lines(folder, "train.tgt")
    assert len(s) == len(t)
    vs, vt = vocab(s), vocab(t)
    xs, xt = tensor(s, vs), tensor(t, vt, bos=True)
    model = Seq2Seq(len(vs) + 3, len(vt) + 3)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for epoch in range(9):
        model.train()
        tot = n = 0
        for idx in torch.randperm(len(xs)).split(64):
            logits = model(xs[idx], xt[idx, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), xt[idx, 1:].flatten(), ignore_index=PAD)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            tot, n = tot + loss.item(), n + 1
        print(f"epoch {epoch} loss {tot / n:.4f}")
    model.eval()
    gold = tensor(lines(folder, "test.tgt"), vt)
    hyp = model.greedy(tensor(lines(folder, "test.src"), vs))
    keep = gold[:, :L - 1] != PAD
    print("final test token accuracy", (hyp == gold[:, :L - 1])[keep].float().mean().item())


main(sys.argv[1])
