"""Route support tickets to teams: word embeddings + CNN over tokens (Kim 2014)."""
import re
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

FOLDER = sys.argv[1]
EPOCHS = 10
LR = 2e-3


def load_vocab(path):
    with open(path) as f:
        return {line.rstrip("\n"): i for i, line in enumerate(f)}


def load_tickets(path):
    out = []
    with open(path) as f:
        for line in f:
            label, text = line.rstrip("\n").split("\t")
            out.append((label, re.findall(r"[a-z']+", text.lower())))
    return out


vocab = load_vocab(f"{FOLDER}/vocab.txt")
UNK, PAD = vocab["<unk>"], vocab["<pad>"]
train_rows, test_rows = load_tickets(f"{FOLDER}/train.tsv"), load_tickets(f"{FOLDER}/test.tsv")
labels = {t: i for i, t in enumerate(sorted({t for t, _ in train_rows}))}


def encode(rows):
    return [(labels[t], torch.tensor([vocab.get(w, UNK) for w in ws])) for t, ws in rows]


def collate(batch):
    y = torch.tensor([b[0] for b in batch])
    x = nn.utils.rnn.pad_sequence([b[1] for b in batch], batch_first=True, padding_value=PAD)
    return x, y


class TextCNN(nn.Module):
    def __init__(self, n_vocab, n_class, dim=48, channels=32, widths=(1, 2, 3)):
        super().__init__()
        self.emb = nn.Embedding(n_vocab, dim, padding_idx=PAD)
        self.convs = nn.ModuleList(nn.Conv1d(dim, channels, w, padding=w - 1) for w in widths)
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(2 * channels * len(widths), n_class)

    def forward(self, x):
        e = self.drop(self.emb(x)).transpose(1, 2)
        feats = []
        for conv in self.convs:
            h = F.relu(conv(e))
            feats += [h.amax(2), h.mean(2)]
        return self.fc(self.drop(torch.cat(feats, 1)))


def accuracy(model, loader):
    model.eval()
    right = total = 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x).argmax(1) == y).sum().item()
            total += y.numel()
    return right / total


torch.manual_seed(33)
train_loader = DataLoader(encode(train_rows), batch_size=64, shuffle=True, collate_fn=collate)
test_loader = DataLoader(encode(test_rows), batch_size=200, collate_fn=collate)
model = TextCNN(len(vocab), len(labels))
print(f"vocab {len(vocab)}  labels {len(labels)}  train {len(train_rows)}  test {len(test_rows)}")
optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01)
for epoch in range(1, EPOCHS + 1):
    model.train()
    total_loss = 0
    for x, y in train_loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total_loss += loss.item()
    print(f"epoch {epoch}: loss {total_loss / len(train_loader):.4f} test accuracy {accuracy(model, test_loader):.4f}")
