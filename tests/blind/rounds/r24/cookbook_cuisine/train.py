"""Guess the cuisine of a cookbook recipe from its list of ingredients."""
import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

folder = Path(sys.argv[1])
torch.manual_seed(4)

vocab = {w: i for i, w in enumerate((folder / "vocab.txt").read_text().split())}
labels = {c: i for i, c in enumerate((folder / "labels.txt").read_text().split())}
PAD, UNK = vocab["<pad>"], vocab["<unk>"]


def encode(text):
    return torch.tensor([vocab.get(w, UNK) for w in text.split()])


def load(split):
    ids, ys = [], []
    with open(folder / "recipes.jsonl") as f:
        for line in f:
            row = json.loads(line)
            if row["split"] == split:
                ids.append(encode(row["text"]))
                ys.append(labels[row["cuisine"]])
    return pad_sequence(ids, batch_first=True, padding_value=PAD), torch.tensor(ys)


class RecipeNet(nn.Module):
    """Embeddings, a width-3 convolution, and masked attention pooling."""

    def __init__(self, n_words, n_classes, dim=32):
        super().__init__()
        self.emb = nn.Embedding(n_words, dim, padding_idx=PAD)
        self.drop = nn.Dropout(0.3)
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)
        self.score = nn.Linear(dim, 1)
        self.out = nn.Linear(dim, n_classes)

    def forward(self, ids):
        mask = ids != PAD
        e = self.drop(self.emb(ids)) * mask.unsqueeze(2)
        h = e + torch.relu(self.conv(e.transpose(1, 2))).transpose(1, 2)
        w = self.score(h).squeeze(2).masked_fill(~mask, float("-inf")).softmax(1)
        return self.out((w.unsqueeze(2) * h).sum(1))


x, y = load("train")
xv, yv = load("val")
print(f"{len(x)} training recipes, {len(xv)} validation recipes, {len(vocab)} words, {len(labels)} cuisines")

net = RecipeNet(len(vocab), len(labels))
opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
for epoch in range(1, 13):
    net.train()
    total = 0.0
    for idx in torch.randperm(len(x)).split(64):
        loss = nn.functional.cross_entropy(net(x[idx]), y[idx], label_smoothing=0.02)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    net.eval()
    with torch.no_grad():
        acc = (net(xv).argmax(1) == yv).float().mean().item()
    print(f"{epoch:3d}  loss {total / len(x):.4f}  val accuracy {acc:.3f}")
