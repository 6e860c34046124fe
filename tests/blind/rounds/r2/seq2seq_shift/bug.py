import random, os

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, BOS, EOS = 0, 1, 2
CFG = dict(seed=2, n=4500, n_val=400, emb=24, hidden=112, batch=50, epochs=4, lr=6e-3)


def encode_names():
    names = [w for w in open(os.environ["TRUELOOP_DATA"] + "/names/names.txt").read().split() if 3 <= len(w) <= 5]
    random.Random(CFG["seed"]).shuffle(names)
    names = names[:CFG["n"]]
    ids = lambda w: [ord(c) - ord("a") + 3 for c in w]
    T = max(map(len, names))
    src = torch.tensor([ids(w) + [PAD] * (T - len(w)) for w in names])
    tgt = torch.tensor([[BOS] + ids(w[::-1]) + [EOS] + [PAD] * (T - len(w)) for w in names])
    return src, tgt


class Seq2Seq(nn.Module):
    def __init__(self, vocab=29):
        super().__init__()
        self.emb = nn.Embedding(vocab, CFG["emb"], padding_idx=PAD)
        self.encoder = nn.GRU(CFG["emb"], CFG["hidden"], batch_first=True)
        self.decoder = nn.GRU(CFG["emb"], CFG["hidden"], batch_first=True)
        self.out = nn.Linear(CFG["hidden"], vocab)

    def encode(self, src):
        lengths = (src != PAD).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(self.emb(src), lengths, batch_first=True, enforce_sorted=False)
        return self.encoder(packed)[1]

    def forward(self, src, dec_in):
        h, _ = self.decoder(self.emb(dec_in), self.encode(src))
        return self.out(h)

    @torch.no_grad()
    def greedy(self, src, steps):
        h = self.encode(src)
        tok = torch.full((src.size(0), 1), BOS)
        outs = []
        for _ in range(steps):
            o, h = self.decoder(self.emb(tok), h)
            tok = self.out(o).argmax(-1)
            outs.append(tok)
        return torch.cat(outs, 1)


def exact_match(model, src, tgt):
    model.eval()
    gold = tgt[:, 1:]
    pred = model.greedy(src, gold.size(1))
    ok = ((pred == gold) | (gold == PAD)).all(1)
    return ok.float().mean().item()


def train():
    torch.manual_seed(CFG["seed"])
    src, tgt = encode_names()
    nv = CFG["n_val"]
    model = Seq2Seq()
    opt = torch.optim.Adam(model.parameters(), lr=CFG["lr"])
    train_src, train_tgt = src[nv:], tgt[nv:]
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, CFG["epochs"], eta_min=5e-4)
    for epoch in range(CFG["epochs"]):
        model.train()
        losses = []
        for idx in torch.randperm(len(train_src)).split(CFG["batch"]):
            dec_in, gold = train_tgt[idx, 1:], train_tgt[idx, 1:]
            logits = model(train_src[idx], dec_in)
            loss = F.cross_entropy(logits.flatten(0, 1), gold.flatten(), ignore_index=PAD)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            losses.append(loss.item())
        sched.step()
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f} exact match {exact_match(model, src[:nv], tgt[:nv]):.3f}")


train()
