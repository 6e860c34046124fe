"""Entity tagger for invoices."""
import argparse
import json
from pathlib import Path

import numpy as np
import torch
from torch import nn


class Corpus:
    def __init__(self, folder, name):
        z = np.load(folder / f"{name}.npz")
        self.words, self.shapes, self.tags = (torch.from_numpy(z[k]).long() for k in ("words", "shapes", "tags"))
        self.length = torch.from_numpy(z["length"]).long()

    def batch(self, rows):
        longest = int(self.length[rows].max())
        return {"words": self.words[rows, :longest], "shapes": self.shapes[rows, :longest],
                "tags": self.tags[rows, :longest], "length": self.length[rows]}


class Tagger(nn.Module):
    def __init__(self, n_words, n_shapes, n_tags, dim, hidden):
        super().__init__()
        self.word = nn.Embedding(n_words, dim, padding_idx=0)
        self.shape = nn.Embedding(n_shapes, 8, padding_idx=0)
        self.conv1 = nn.Conv1d(dim + 8, hidden, 3, padding=1)
        self.conv2 = nn.Conv1d(hidden, hidden, 3, padding=1)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(hidden, n_tags)

    def forward(self, words, shapes):
        h = torch.cat([self.word(words), self.shape(shapes)], -1).transpose(1, 2)
        h = self.drop(torch.relu(self.conv1(h)))
        h = torch.relu(self.conv2(h)) + h
        return self.out(h.transpose(1, 2))


@torch.no_grad()
def macro_f1(model, corpus, labels):
    model.eval()
    b = corpus.batch(torch.arange(len(corpus.length)))
    pred = model(b["words"], b["shapes"]).argmax(-1)
    real = torch.arange(pred.shape[1])[None] < b["length"][:, None]
    p, t = pred[real], b["tags"][real]
    scores = []
    for c in labels:
        tp = ((p == c) & (t == c)).sum().item()
        scores.append(2 * tp / max(1, (p == c).sum().item() + (t == c).sum().item()))
    return float(np.mean(scores))


def main():
    cli = argparse.ArgumentParser()
    cli.add_argument("folder", type=Path)
    folder = cli.parse_args().folder
    cfg = json.loads((folder / "tagger.json").read_text())
    torch.manual_seed(cfg["seed"])
    train, valid, test = (Corpus(folder, n) for n in ("train", "valid", "test"))
    vocab = cfg["tags"]
    labels = [i for i, t in enumerate(vocab) if t != "<pad>"]
    model = Tagger(cfg["n_words"], cfg["n_shapes"], len(vocab), cfg["dim"], cfg["hidden"])
    criterion = nn.CrossEntropyLoss(ignore_index=cfg["ignore_index"])
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    for epoch in range(cfg["epochs"]):
        model.train()
        losses = []
        for rows in torch.randperm(len(train.length)).split(cfg["batch_size"]):
            b = train.batch(rows)
            loss = criterion(model(b["words"], b["shapes"]).flatten(0, 1), b["tags"].flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1} loss {np.mean(losses):.4f} valid f1 {macro_f1(model, valid, labels):.4f}")
    print(f"test f1 {macro_f1(model, test, labels):.4f}")


if __name__ == "__main__":
    main()
