"""Catalogue phrases en -> fr: small transformer, word vocabulary from a file."""
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader

PAD, UNK, BOS, EOS = range(4)


@dataclass
class Config:
    folder: Path
    dim: int = 40
    heads: int = 4
    epochs: int = 8
    batch_size: int = 64
    lr: float = 4e-3
    seed: int = 12


class Vocab:
    def __init__(self, words):
        self.words = words
        self.index = {w: i for i, w in enumerate(words)}

    def encode(self, text):
        return [BOS] + [self.index.get(w, UNK) for w in text.split()] + [EOS]

    def decode(self, ids):
        out = []
        for i in ids:
            if i == EOS:
                break
            out.append(self.words[i])
        return " ".join(out)


def read_pairs(path):
    return [tuple(line.split("\t")) for line in path.read_text().splitlines()]


def make_collate(src_vocab, tgt_vocab):
    def collate(batch):
        pad = lambda seqs: nn.utils.rnn.pad_sequence([torch.tensor(s) for s in seqs], True, PAD)
        return pad([src_vocab.encode(s) for s, _ in batch]), pad([tgt_vocab.encode(t) for _, t in batch])
    return collate


class Translator(nn.Module):
    def __init__(self, n_src, n_tgt, cfg, max_len=8):
        super().__init__()
        self.src = nn.Embedding(n_src, cfg.dim, padding_idx=PAD)
        self.tgt = nn.Embedding(n_tgt, cfg.dim, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(max_len, cfg.dim) * 0.1)
        layer = nn.TransformerEncoderLayer(cfg.dim, cfg.heads, 2 * cfg.dim, dropout=0.0, batch_first=True)
        encoder = nn.TransformerEncoder(layer, 1, nn.LayerNorm(cfg.dim), enable_nested_tensor=False)
        self.core = nn.Transformer(cfg.dim, cfg.heads, 1, 1, 2 * cfg.dim, dropout=0.0, batch_first=True,
                                   custom_encoder=encoder)
        self.out = nn.Linear(cfg.dim, n_tgt)

    def forward(self, src, tgt):
        mask = torch.triu(torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool), 1)
        h = self.core(self.src(src) + self.pos[:src.size(1)], self.tgt(tgt) + self.pos[:tgt.size(1)],
                      tgt_mask=mask, src_key_padding_mask=src == PAD,
                      memory_key_padding_mask=src == PAD)
        return self.out(h)


@torch.no_grad()
def exact_match(model, loader, tgt_vocab, max_len=5):
    model.eval()
    hits = n = 0
    for src, tgt in loader:
        hyp = torch.full((len(src), 1), BOS)
        for _ in range(max_len):
            hyp = torch.cat([hyp, model(src, hyp)[:, -1:].argmax(-1)], 1)
        for h, t in zip(hyp[:, 1:].tolist(), tgt[:, 1:].tolist()):
            hits += tgt_vocab.decode(h) == tgt_vocab.decode(t)
            n += 1
    return hits / n


def main():
    cfg = Config(Path(sys.argv[1]))
    torch.manual_seed(cfg.seed)
    vocab = json.loads((cfg.folder / "vocab.json").read_text())
    src_vocab, tgt_vocab = Vocab(vocab["src"]), Vocab(vocab["tgt"])
    collate = make_collate(src_vocab, tgt_vocab)
    train = DataLoader(read_pairs(cfg.folder / "train.tsv"), cfg.batch_size, shuffle=True, collate_fn=collate)
    valid = DataLoader(read_pairs(cfg.folder / "valid.tsv"), 128, collate_fn=collate)
    print(f"source vocabulary {len(vocab['src'])}, target vocabulary {len(vocab['tgt'])}")

    model = Translator(len(vocab["src"]), len(vocab["tgt"]), cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    for epoch in range(1, cfg.epochs + 1):
        model.train()
        total = 0.0
        for src, tgt in train:
            logits = model(src, tgt[:, :-1])
            loss = criterion(logits.flatten(0, 1), tgt[:, 1:].flatten())
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.item()
        print(f"epoch {epoch:2d} loss {total / len(train):.4f} valid exact {exact_match(model, valid, tgt_vocab):.3f}")


if __name__ == "__main__":
    main()
