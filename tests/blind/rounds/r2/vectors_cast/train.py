import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)
folder = Path(sys.argv[1])
words = json.loads((folder / "words.json").read_text())
index = {w: i for i, w in enumerate(words)}
vectors = torch.from_numpy(np.load(folder / "vectors.npy"))
questions = json.loads((folder / "questions.json").read_text())


def tensors(rows):
    x = torch.tensor([[index[w] for w in r["tokens"]] for r in rows])
    return TensorDataset(x, torch.tensor([r["topic"] for r in rows]))


class TopicModel(nn.Module):
    def __init__(self, vectors, n_topics=8):
        super().__init__()
        self.emb = nn.Embedding.from_pretrained(vectors, freeze=True)
        self.token = nn.Sequential(nn.Linear(vectors.size(1), 48), nn.ReLU())
        self.out = nn.Linear(48, n_topics)

    def forward(self, x):
        return self.out(self.token(self.emb(x)).mean(1))


train_loader = DataLoader(tensors(questions["train"]), batch_size=30, shuffle=True)
val_x, val_y = tensors(questions["val"]).tensors
model = TopicModel(vectors)
opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=5e-3)
loss_fn = nn.CrossEntropyLoss()
for epoch in range(12):
    model.train()
    running = 0.0
    for x, y in train_loader:
        loss = loss_fn(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item()
    model.eval()
    with torch.no_grad():
        logits = model(val_x)
        acc = (logits.argmax(1) == val_y).float().mean().item()
    if epoch % 3 == 2:
        print(f"epoch {epoch} loss {running / len(train_loader):.3f} val loss {loss_fn(logits, val_y).item():.3f} acc {acc:.3f}")
