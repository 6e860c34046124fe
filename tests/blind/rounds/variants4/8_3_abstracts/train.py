import json
import sys
from pathlib import Path

import numpy as np
import torch
import yaml
from torch import nn


class TfIdf:
    def __init__(self, vocab, idf):
        self.index = {w: i for i, w in enumerate(vocab)}
        self.idf = idf

    def matrix(self, texts):
        m = np.zeros((len(texts), len(self.index)), dtype=np.float32)
        for r, text in enumerate(texts):
            for w in text.split():
                if w in self.index:
                    m[r, self.index[w]] += 1
        m = np.log1p(m) * self.idf
        return m / np.maximum(np.linalg.norm(m, axis=1, keepdims=True), 1e-8)


def read(path):
    records = [json.loads(line) for line in path.open()]
    return [r["abstract"] for r in records], [r["field"] for r in records]


class FieldClassifier:
    def __init__(self, n_features, fields, cfg):
        torch.manual_seed(cfg["seed"])
        self.fields = fields
        self.cfg = cfg
        self.model = nn.Sequential(nn.Linear(n_features, cfg["hidden"]), nn.ReLU(), nn.Dropout(cfg["dropout"]), nn.Linear(cfg["hidden"], len(fields)))
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])

    def labels(self, names):
        return torch.tensor([self.fields.index(n) for n in names])

    def epoch(self, x, y):
        self.model.train()
        total = 0.0
        for idx in torch.randperm(len(y)).split(self.cfg["batch"]):
            loss = nn.functional.cross_entropy(self.model(x[idx]), y[idx])
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item() * len(idx)
        return total / len(y)

    def accuracy(self, x, y):
        self.model.eval()
        with torch.no_grad():
            return (self.model(x).argmax(1) == y).double().mean().item()


def main():
    folder = Path(sys.argv[1])
    cfg = yaml.safe_load((folder / "classifier.yaml").read_text())
    vec = TfIdf((folder / "vocab.txt").read_text().split(), np.load(folder / "idf.npy"))
    texts, fields = read(folder / "train.jsonl")
    v_texts, v_fields = read(folder / "valid.jsonl")
    x, vx = torch.from_numpy(vec.matrix(texts)), torch.from_numpy(vec.matrix(v_texts))
    clf = FieldClassifier(x.shape[1], sorted(set(fields)), cfg)
    y, vy = clf.labels(fields), clf.labels(v_fields)
    for e in range(cfg["epochs"]):
        loss = clf.epoch(x, y)
        if e % 3 == 2:
            print(f"epoch {e + 1} loss {loss:.4f} valid {clf.accuracy(vx, vy):.4f}")
    print(f"valid accuracy {clf.accuracy(vx, vy):.4f}")


if __name__ == "__main__":
    main()
