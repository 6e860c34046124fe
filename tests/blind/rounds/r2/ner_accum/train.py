import json
import sys

import torch
import torch.nn as nn

folder = sys.argv[1]
with open(folder + "/config.json") as f:
    cfg = json.load(f)
torch.manual_seed(cfg["seed"])
TAGS = {"O": 1, "PER": 2, "LOC": 3, "ORG": 4}


def read_conll(path):
    sentences, current = [], []
    for line in open(path):
        if line.strip():
            current.append(line.split())
        elif current:
            sentences.append(current)
            current = []
    return sentences


class Tagger(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, cfg["dim"], padding_idx=0)
        self.lstm = nn.LSTM(cfg["dim"], cfg["hidden"], batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * cfg["hidden"], len(TAGS) + 1)

    def forward(self, x):
        return self.out(self.lstm(self.emb(x))[0])


def tensors(sentences, vocab):
    width = max(map(len, sentences))
    x = torch.zeros(len(sentences), width, dtype=torch.long)
    y = torch.zeros(len(sentences), width, dtype=torch.long)
    for i, s in enumerate(sentences):
        x[i, :len(s)] = torch.tensor([vocab.get(w, 1) for w, _ in s])
        y[i, :len(s)] = torch.tensor([TAGS[t] for _, t in s])
    return x, y


def entity_f1(model, x, y):
    model.eval()
    with torch.no_grad():
        pred = model(x).argmax(-1)
    keep = y > 0
    pred, gold = pred[keep], y[keep]
    tp = ((pred == gold) & (gold > 1)).sum().item()
    return 2 * tp / max(1, (pred > 1).sum().item() + (gold > 1).sum().item())


train_s, dev_s = read_conll(folder + "/train.conll"), read_conll(folder + "/dev.conll")
vocab = {w: i + 2 for i, w in enumerate(sorted({w for s in train_s for w, _ in s}))}
x, y = tensors(train_s, vocab)
xd, yd = tensors(dev_s, vocab)
model = Tagger(len(vocab) + 2)
opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
loss_fn = nn.CrossEntropyLoss(ignore_index=0)
for epoch in range(cfg["epochs"]):
    model.train()
    opt.zero_grad()
    total = 0.0
    batches = torch.randperm(len(x)).split(cfg["batch_size"])
    for i, idx in enumerate(batches):
        loss = loss_fn(model(x[idx]).flatten(0, 1), y[idx].flatten())
        (loss / cfg["accumulate"]).backward()
        total += loss.item()
        if (i + 1) % cfg["accumulate"] == 0:
            opt.step()
            opt.zero_grad()
    print(f"epoch {epoch} loss {total / len(batches):.3f} dev entity F1 {entity_f1(model, xd, yd):.3f}")
