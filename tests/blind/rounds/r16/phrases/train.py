"""Intent of customer phrases with fixed pretrained word vectors."""
import sys
from pathlib import Path
import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence


def load_vocab(folder):
    words = (folder / "vocab.txt").read_text().split()
    vectors = torch.from_numpy(np.load(folder / "vectors.npy"))
    vectors = torch.cat([torch.zeros(1, vectors.shape[1]), vectors])
    return {w: i + 1 for i, w in enumerate(words)}, vectors


def load_phrases(path, vocab, intents=None):
    pairs = [line.split("\t") for line in path.read_text().splitlines()]
    intents = intents or sorted({p[0] for p in pairs})
    tokens = pad_sequence([torch.tensor([vocab[w] for w in p[1].split()]) for p in pairs], batch_first=True)
    return tokens, torch.tensor([intents.index(p[0]) for p in pairs]), intents


class IntentNet(nn.Module):
    def __init__(self, vectors, n_out):
        super().__init__()
        self.emb = nn.Embedding.from_pretrained(vectors, freeze=True, padding_idx=0)
        self.word = nn.Sequential(nn.Linear(vectors.shape[1], 32), nn.ReLU())
        self.out = nn.Linear(32, n_out)

    def forward(self, tokens):
        h = self.word(self.emb(tokens)) * (tokens > 0).unsqueeze(-1)
        return self.out(h.sum(1) / (tokens > 0).sum(1, keepdim=True))


def main(folder):
    torch.manual_seed(10)
    vocab, vectors = load_vocab(folder)
    xtr, ytr, intents = load_phrases(folder / "train.tsv", vocab)
    xte, yte, _ = load_phrases(folder / "test.tsv", vocab, intents)
    net = IntentNet(vectors, len(intents))
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for epoch in range(12):
        for rows in torch.randperm(len(xtr)).split(25):
            loss = nn.functional.cross_entropy(net(xtr[rows]), ytr[rows])
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 4 == 3:
            with torch.no_grad():
                acc = (net(xte).argmax(1) == yte).float().mean().item()
            print(f"epoch {epoch + 1} loss {loss.item():.3f} test accuracy {acc:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
