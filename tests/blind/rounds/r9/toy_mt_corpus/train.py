"""Toy machine translation from a parallel corpus: GRU encoder-decoder with attention."""
import sys
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

PAD, BOS, EOS, UNK = 0, 1, 2, 3


def read_parallel(folder, split):
    src = (folder / f"{split}.src").read_text().splitlines()
    tgt = (folder / f"{split}.tgt").read_text().splitlines()
    return [(s.split(), t.split()) for s, t in zip(src, tgt)]


def build_vocab(sentences):
    words = sorted({w for sentence in sentences for w in sentence})
    return {w: i + 4 for i, w in enumerate(words)}


class Translator(nn.Module):
    def __init__(self, n_src, n_tgt, dim=64):
        super().__init__()
        self.src_emb = nn.Embedding(n_src, dim, padding_idx=PAD)
        self.tgt_emb = nn.Embedding(n_tgt, dim, padding_idx=PAD)
        self.enc = nn.GRU(dim, dim // 2, batch_first=True, bidirectional=True)
        self.dec = nn.GRU(dim, dim, batch_first=True)
        self.key = nn.Linear(dim, dim)
        self.mix = nn.Linear(2 * dim, dim)
        self.out = nn.Linear(dim, n_tgt)

    def encode(self, src):
        memory, h = self.enc(self.src_emb(src))
        return memory, src.eq(PAD), torch.cat([h[0], h[1]], -1).unsqueeze(0)

    def decode(self, prev, memory, pad, h):
        y, h = self.dec(self.tgt_emb(prev), h)
        score = y @ self.key(memory).transpose(1, 2) / y.size(-1) ** 0.5
        attn = score.masked_fill(pad.unsqueeze(1), float("-inf")).softmax(-1)
        return self.out(torch.tanh(self.mix(torch.cat([y, attn @ memory], -1)))), h

    def forward(self, src, prev):
        memory, pad, h = self.encode(src)
        return self.decode(prev, memory, pad, h)[0]

    @torch.no_grad()
    def greedy(self, src, max_len=20):
        memory, pad, h = self.encode(src)
        prev, out = torch.full((len(src), 1), BOS), []
        for _ in range(max_len):
            logits, h = self.decode(prev, memory, pad, h)
            prev = logits.argmax(-1)
            out.append(prev)
        return torch.cat(out, 1).tolist()


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(13)
    train, valid = read_parallel(folder, "train"), read_parallel(folder, "valid")
    src_vocab = build_vocab(s for s, _ in train)
    tgt_vocab = build_vocab(t for _, t in train)
    print(f"{len(train)} training pairs, {len(valid)} validation pairs")

    def collate(rows):
        src = [torch.tensor([src_vocab.get(w, UNK) for w in s]) for s, _ in rows]
        tgt = [torch.tensor([BOS] + [tgt_vocab.get(w, UNK) for w in t] + [EOS]) for _, t in rows]
        return pad_sequence(src, True, PAD), pad_sequence(tgt, True, PAD)

    loader = DataLoader(train, batch_size=64, shuffle=True, collate_fn=collate)
    valid_loader = DataLoader(valid, batch_size=150, collate_fn=collate)
    model = Translator(len(src_vocab) + 4, len(tgt_vocab) + 4)
    opt = torch.optim.Adam(model.parameters(), lr=8e-3)
    for epoch in range(3):
        model.train()
        total = 0.0
        for src, tgt in loader:
            logits = model(src, tgt[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.item()
        model.eval()
        vloss, exact = 0.0, 0
        with torch.no_grad():
            for src, tgt in valid_loader:
                logits = model(src, tgt[:, :-1])
                vloss += F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD).item()
                for hyp, ref in zip(model.greedy(src), tgt.tolist()):
                    hyp = hyp[:hyp.index(EOS)] if EOS in hyp else hyp
                    exact += hyp == ref[1:ref.index(EOS)]
        print(f"epoch {epoch}: train {total / len(loader):.3f} valid {vloss / len(valid_loader):.3f} "
              f"exact {exact / len(valid):.3f}")


if __name__ == "__main__":
    main()
