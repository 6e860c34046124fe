"""Question type classification with frozen pretrained word vectors."""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

MAX_LEN = 12


def load_vectors(path):
    words, rows = [], []
    for line in path.open():
        word, *values = line.split()
        words.append(word)
        rows.append([float(v) for v in values])
    matrix = np.array(rows, dtype=np.float32)
    unk = matrix.mean(0, keepdims=True)
    matrix = np.concatenate([np.zeros_like(unk), unk, matrix])
    return {w: i + 2 for i, w in enumerate(words)}, torch.from_numpy(matrix)


def load_questions(path, vocab, labels):
    x, y = [], []
    for line in path.read_text().splitlines():
        label, text = line.split("\t")
        ids = [vocab.get(w, 1) for w in text.lower().split()][:MAX_LEN]
        x.append(ids + [0] * (MAX_LEN - len(ids)))
        y.append(labels.setdefault(label, len(labels)))
    return TensorDataset(torch.tensor(x), torch.tensor(y))


class QuestionClassifier(nn.Module):
    def __init__(self, vectors, n_classes, width=64):
        super().__init__()
        self.emb = nn.Embedding.from_pretrained(vectors, freeze=True, padding_idx=0)
        dim = vectors.size(1)
        self.conv1 = nn.Conv1d(dim, width, 1)
        self.conv3 = nn.Conv1d(dim, width, 3, padding=1)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(2 * width, n_classes)

    def forward(self, x):
        e = self.emb(x).transpose(1, 2)
        h = torch.cat([self.conv1(e).relu().amax(2), self.conv3(e).relu().amax(2)], 1)
        return self.out(self.drop(h))


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(2)
    vocab, vectors = load_vectors(folder / "vectors.txt")
    print(f"{len(vocab)} word vectors of {vectors.size(1)} dimensions")
    labels = {}
    train = load_questions(folder / "train.txt", vocab, labels)
    valid = load_questions(folder / "valid.txt", vocab, labels)
    loader = DataLoader(train, batch_size=32, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=200)

    model = QuestionClassifier(vectors, len(labels))
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.Adam(params, lr=2e-3)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(8):
        model.train()
        total = 0.0
        for x, y in loader:
            opt.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            opt.step()
            total += loss.item()
        model.eval()
        hit, vloss = 0, 0.0
        with torch.no_grad():
            for x, y in valid_loader:
                out = model(x)
                vloss += loss_fn(out, y).item()
                hit += (out.argmax(1) == y).sum().item()
        print(f"epoch {epoch}: train {total / len(loader):.3f} valid {vloss / len(valid_loader):.3f} "
              f"accuracy {hit / len(valid):.3f}")


if __name__ == "__main__":
    main()
