"""Reviews by a bag of words; the learning rate is cut when the validation accuracy stops rising."""

import os
import random
from collections import Counter

import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
folder = os.path.join(os.environ["TRUELOOP_DATA"], "movie-reviews")
rows = [(line.split(), label) for label, name in enumerate(("neg", "pos"))
        for line in open(os.path.join(folder, f"rt-polarity.{name}"), encoding="latin-1")]
random.shuffle(rows)
counts = Counter(word for words, _ in rows[:8000] for word in words)
vocabulary = {word: i + 1 for i, (word, _) in enumerate(counts.most_common(5000))}


def encode(part):
    x = torch.zeros(len(part), 40, dtype=torch.long)
    for i, (words, _) in enumerate(part):
        for j, word in enumerate(words[:40]):
            x[i, j] = vocabulary.get(word, 0)
    return x, torch.tensor([label for _, label in part])


train_x, train_y = encode(rows[:8000])
val_x, val_y = encode(rows[8000:9500])


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(5001, 32, padding_idx=0)
        self.out = nn.Linear(32, 2)

    def forward(self, x):
        return self.out(self.words(x).sum(1) / (x > 0).sum(1, keepdim=True).clamp(min=1))


def accuracy(model):
    model.eval()
    with torch.no_grad():
        return (model(val_x).argmax(1) == val_y).float().mean().item()


model = Bag()
optimizer = torch.optim.SGD(model.parameters(), lr=2.0, momentum=0.9)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", factor=0.2, patience=1)
criterion = nn.CrossEntropyLoss()

for epoch in range(25):
    model.train()
    for rows_ in torch.randperm(len(train_x)).split(128):
        optimizer.zero_grad()
        loss = criterion(model(train_x[rows_]), train_y[rows_])
        loss.backward()
        optimizer.step()
    score = accuracy(model)
    scheduler.step(score)
    print(f"epoch {epoch} loss {loss.item():.3f} val accuracy {score:.3f} lr {optimizer.param_groups[0]['lr']:.2e}")
