import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

folder = Path(sys.argv[1])
SEED, EPOCHS, BATCH, LR = 8, 40, 32, 1.5e-3

torch.manual_seed(SEED)
rng = np.random.default_rng(SEED)

# --- stories and vocabulary -------------------------------------------------
vocab = {w: i + 1 for i, w in enumerate((folder / "vocab.txt").read_text().split())}  # 0 is padding
stories = [json.loads(line) for line in (folder / "stories.jsonl").read_text().splitlines()]
genres = sorted({s["genre"] for s in stories})
tokens = [torch.tensor([vocab[w] for w in s["text"].split() if w in vocab]) for s in stories]
target = torch.tensor([genres.index(s["genre"]) for s in stories])

order = rng.permutation(len(stories))
n_val = len(stories) // 3
val_ids, train_ids = order[:n_val], order[n_val:]

# --- pretrained word vectors ------------------------------------------------
saved = torch.load(folder / "word_vectors.pt", weights_only=True)
weight = saved["embedding.weight"]
weight = torch.cat([torch.zeros(1, saved["dim"]), weight])
assert weight.shape == (len(vocab) + 1, saved["dim"])


class StoryClassifier(nn.Module):
    """Frozen word vectors, a learned gate per word, weighted mean, two layers."""

    def __init__(self, weight, n_out, hidden=64):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(weight, freeze=True, padding_idx=0)
        self.gate = nn.Linear(weight.shape[1], 1)
        self.mlp = nn.Sequential(
            nn.LayerNorm(weight.shape[1]), nn.Dropout(0.2),
            nn.Linear(weight.shape[1], hidden), nn.ReLU(), nn.Dropout(0.3),
            nn.Linear(hidden, n_out),
        )

    def forward(self, ids):
        e = self.embedding(ids)
        score = self.gate(e).squeeze(-1).masked_fill(ids == 0, float("-inf"))
        pooled = (score.softmax(1).unsqueeze(-1) * e).sum(1)
        return self.mlp(pooled)


def get_batches(ids, shuffle):
    ids = rng.permutation(ids) if shuffle else ids
    for k in range(0, len(ids), BATCH):
        part = ids[k:k + BATCH]
        yield pad_sequence([tokens[i] for i in part], batch_first=True), target[torch.from_numpy(part)]


def evaluate(model):
    model.eval()
    hits, nll = 0, 0.0
    with torch.no_grad():
        for ids, y in get_batches(val_ids, shuffle=False):
            out = model(ids)
            hits += (out.argmax(1) == y).sum().item()
            nll += F.cross_entropy(out, y, reduction="sum").item()
    return hits / len(val_ids), nll / len(val_ids)


model = StoryClassifier(weight, len(genres))
opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR, weight_decay=0.05)
sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.05, total_iters=EPOCHS)
print(f"{len(train_ids)} training stories, {len(val_ids)} validation stories, {len(vocab)} words, {len(genres)} genres")

for epoch in range(1, EPOCHS + 1):
    model.train()
    losses = []
    for ids, y in get_batches(train_ids, shuffle=True):
        loss = F.cross_entropy(model(ids), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    sched.step()
    if epoch % 8 == 0:
        acc, nll = evaluate(model)
        print(f"epoch {epoch:2d}  train {np.mean(losses):.3f}  val nll {nll:.3f}  val acc {acc:.3f}")

acc, nll = evaluate(model)
print(f"validation accuracy {acc:.4f}  nll {nll:.4f}")
