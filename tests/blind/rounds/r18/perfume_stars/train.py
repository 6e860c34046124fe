"""Stars of a perfume review from its text. Few labelled reviews, so the word vectors stay as they were pretrained."""
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

root = Path(sys.argv[1])
torch.manual_seed(17)
vocab = json.loads((root / "vocab.json").read_text())
vectors = torch.from_numpy(np.load(root / "vectors.npy"))
assert len(vocab) == len(vectors)
PAD = len(vectors)
table = torch.cat([vectors, torch.zeros(1, vectors.shape[1])])


def load(name):
    rows = [json.loads(s) for s in (root / name).read_text().splitlines()]
    ids = [torch.tensor([vocab[w] for w in r["text"].split() if w in vocab]) for r in rows]
    return pad_sequence(ids, batch_first=True, padding_value=PAD), torch.tensor([r["stars"] for r in rows])


class Rater(nn.Module):
    def __init__(self, table, hidden=32):
        super().__init__()
        self.emb = nn.Embedding.from_pretrained(table, freeze=True, padding_idx=PAD)
        self.word = nn.Sequential(nn.Linear(table.shape[1], hidden), nn.ReLU(), nn.Dropout(0.1))
        self.out = nn.Linear(hidden, 1)

    def forward(self, ids):
        real = (ids != PAD).unsqueeze(-1)
        h = (self.word(self.emb(ids)) * real).sum(1) / real.sum(1).clamp_min(1)
        return self.out(h).squeeze(1)


xtr, ytr = load("train.jsonl")
xte, yte = load("test.jsonl")
mu, sd = ytr.mean(), ytr.std()
net = Rater(table)
opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=4e-3, weight_decay=0.01)
for epoch in range(30):
    net.train()
    run = []
    for b in torch.randperm(len(xtr)).split(32):
        loss = nn.functional.mse_loss(net(xtr[b]), (ytr[b] - mu) / sd)
        opt.zero_grad()
        loss.backward()
        opt.step()
        run.append(loss.item())
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1} loss {np.mean(run):.4f}")
net.eval()
with torch.no_grad():
    p = (net(xte) * sd + mu).clamp(1, 5)
mae = (p - yte).abs().mean().item()
print(f"test MAE {mae:.3f} stars (always the mean: {(mu - yte).abs().mean():.3f}), correlation {torch.corrcoef(torch.stack([p, yte]))[0, 1]:.3f}")
