"""Toy translation (number words -> reordered target language) with a GRU encoder-decoder."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

PAD, BOS, EOS = 0, 1, 2
SRC = {w: i + 3 for i, w in enumerate("one two three four five six seven eight nine ten".split())}
TGT = {w: i + 3 for i, w in enumerate("ein zwei drei vier fuenf sechs sieben acht neun zehn".split())}


@dataclass
class MTConfig:
    n_train: int = 4000
    n_valid: int = 300
    min_len: int = 3
    max_len: int = 4
    dim: int = 56
    batch_size: int = 64
    epochs: int = 8
    lr: float = 5e-3
    seed: int = 7


def make_corpus(n, cfg, rng):
    src_words, tgt_words = list(SRC), list(TGT)
    pairs = []
    for _ in range(n):
        k = rng.integers(cfg.min_len, cfg.max_len + 1)
        ids = rng.integers(0, len(src_words), k)
        s = [SRC[src_words[i]] for i in ids]
        t = [TGT[tgt_words[i]] for i in ids[::-1]]
        pairs.append((s, t))
    return pairs


def pad(seqs):
    width = max(map(len, seqs))
    return torch.tensor([s + [PAD] * (width - len(s)) for s in seqs])


def collate(pairs):
    src = pad([s + [EOS] for s, _ in pairs])
    tgt = pad([[BOS] + t + [EOS] for _, t in pairs])
    return src, tgt


class Seq2Seq(nn.Module):
    def __init__(self, n_src, n_tgt, dim):
        super().__init__()
        self.src_emb = nn.Embedding(n_src, dim, padding_idx=PAD)
        self.tgt_emb = nn.Embedding(n_tgt, dim, padding_idx=PAD)
        self.encoder = nn.GRU(dim, dim, batch_first=True)
        self.decoder = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, n_tgt)

    def encode(self, src):
        lengths = (src != PAD).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(self.src_emb(src), lengths, batch_first=True,
                                                   enforce_sorted=False)
        return self.encoder(packed)[1]

    def forward(self, src, tgt_in):
        h, _ = self.decoder(self.tgt_emb(tgt_in), self.encode(src))
        return self.out(h)

    @torch.no_grad()
    def translate(self, src, max_len):
        state = self.encode(src)
        tok = torch.full((len(src), 1), BOS)
        result = []
        for _ in range(max_len):
            h, state = self.decoder(self.tgt_emb(tok), state)
            tok = self.out(h).argmax(-1)
            result.append(tok)
        return torch.cat(result, 1)


def exact_match(model, pairs, max_len):
    model.eval()
    src, _ = collate(pairs)
    hyp = model.translate(src, max_len + 1).tolist()
    hits = 0
    for h, (_, t) in zip(hyp, pairs):
        h = h[:h.index(EOS)] if EOS in h else h
        hits += h == t
    return hits / len(pairs)


def main():
    cfg = MTConfig()
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    corpus = make_corpus(cfg.n_train + cfg.n_valid, cfg, rng)
    valid = corpus[cfg.n_train:]
    held_out = {tuple(s) for s, _ in valid}
    train = [p for p in corpus[:cfg.n_train] if tuple(p[0]) not in held_out]

    model = Seq2Seq(len(SRC) + 3, len(TGT) + 3, cfg.dim)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    for epoch in range(cfg.epochs):
        model.train()
        order = rng.permutation(len(train))
        losses = []
        for i in range(0, len(order), cfg.batch_size):
            src, tgt = collate([train[j] for j in order[i:i + cfg.batch_size]])
            tgt_in, tgt_out = tgt[:, :-1], tgt[:, 1:]
            logits = model(src, tgt_in)
            loss = criterion(logits.flatten(0, 1), tgt_out.flatten())
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1} loss {np.mean(losses):.4f} "
              f"valid exact match {exact_match(model, valid, cfg.max_len):.3f}")


if __name__ == "__main__":
    main()
