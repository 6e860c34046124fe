"""Which motif is on the front of a postcard, told from the message on its back."""
import json
import os
import random
import sys

import numpy as np
import torch
from torch import nn


class Vocabulary:
    def __init__(self, path):
        with open(path) as f:
            self.words = f.read().split()
        self.index = {w: i for i, w in enumerate(self.words)}

    def encode(self, text, length=16):
        ids = [self.index.get(w, 1) for w in text.split()][:length]
        return ids + [0] * (length - len(ids))


class MotifNet(nn.Module):
    def __init__(self, vectors, classes, hidden=64):
        super().__init__()
        self.table = nn.Embedding.from_pretrained(vectors, freeze=True, padding_idx=0)
        self.query = nn.Linear(vectors.shape[1], 1)
        self.body = nn.Sequential(nn.Linear(vectors.shape[1], hidden), nn.GELU(), nn.Dropout(0.3), nn.Linear(hidden, classes))

    def forward(self, ids):
        e = self.table(ids)
        w = self.query(e).squeeze(-1).masked_fill(ids == 0, float("-inf")).softmax(1)
        return self.body((w.unsqueeze(-1) * e).sum(1))


class Trainer:
    def __init__(self, folder, seed=4, epochs=40, batch=25, lr=2e-3):
        random.seed(seed)
        torch.manual_seed(seed)
        self.epochs, self.batch = epochs, batch
        self.vocab = Vocabulary(os.path.join(folder, "vocab.txt"))
        vectors = torch.from_numpy(np.load(os.path.join(folder, "word_vectors.npy"))).float()
        assert len(vectors) == len(self.vocab.words)
        vectors = vectors / vectors.std()
        raw = {k: self.read(os.path.join(folder, k + ".jsonl")) for k in ("train", "valid")}
        self.motifs = sorted({c["motif"] for c in raw["train"]})
        self.data = {k: self.tensors(v) for k, v in raw.items()}
        self.net = MotifNet(vectors, len(self.motifs))
        self.opt = torch.optim.Adam([p for p in self.net.parameters() if p.requires_grad], lr=lr, weight_decay=1e-4)
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.05)

    @staticmethod
    def read(path):
        with open(path) as f:
            return [json.loads(line) for line in f]

    def tensors(self, cards):
        x = torch.tensor([self.vocab.encode(c["text"]) for c in cards])
        y = torch.tensor([self.motifs.index(c["motif"]) for c in cards])
        return x, y

    def train_epoch(self):
        self.net.train()
        x, y = self.data["train"]
        total = 0.0
        for idx in torch.randperm(len(x)).split(self.batch):
            self.opt.zero_grad()
            loss = self.loss(self.net(x[idx]), y[idx])
            loss.backward()
            self.opt.step()
            total += loss.item() * len(idx)
        return total / len(x)

    @torch.no_grad()
    def accuracy(self, part):
        self.net.eval()
        x, y = self.data[part]
        return (self.net(x).argmax(1) == y).float().mean().item()

    def run(self):
        for epoch in range(1, self.epochs + 1):
            loss = self.train_epoch()
            if epoch % 5 == 0:
                print(f"epoch {epoch:3d} loss {loss:.3f} train acc {self.accuracy('train'):.3f} valid acc {self.accuracy('valid'):.3f}")


if __name__ == "__main__":
    Trainer(sys.argv[1]).run()
