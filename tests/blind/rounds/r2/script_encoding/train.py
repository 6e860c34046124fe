import json
import sys

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

ROOT = sys.argv[1]
with open(f"{ROOT}/reader.json") as f:
    CFG = json.load(f)
LANGUAGES = ["georgian", "greek", "russian", "ukrainian"]


class Surnames(Dataset):
    def __init__(self, path, alphabet=None):
        with open(path, encoding=CFG["encoding"], errors="replace") as f:
            self.rows = [line.split() for line in f]
        letters = sorted({c for _, name in self.rows for c in name})
        self.alphabet = alphabet or {c: i + 2 for i, c in enumerate(letters)}

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        language, name = self.rows[i]
        return torch.tensor([self.alphabet.get(c, 1) for c in name]), LANGUAGES.index(language)


def collate(items):
    seqs, labels = zip(*items)
    return pad_sequence(seqs, batch_first=True), torch.tensor(labels)


class SurnameNet(nn.Module):
    def __init__(self, n_chars, dim=24):
        super().__init__()
        self.emb = nn.Embedding(n_chars, dim, padding_idx=0)
        self.conv = nn.Conv1d(dim, 40, 2, padding=1)
        self.fc = nn.Linear(40, len(LANGUAGES))

    def forward(self, x):
        h = torch.relu(self.conv(self.emb(x).transpose(1, 2)))
        return self.fc(h.amax(-1))


def main():
    torch.manual_seed(29)
    train_set = Surnames(f"{ROOT}/train.txt")
    val_set = Surnames(f"{ROOT}/val.txt", train_set.alphabet)
    train_loader = DataLoader(train_set, CFG["batch_size"], shuffle=True, collate_fn=collate)
    val_loader = DataLoader(val_set, 200, collate_fn=collate)
    model = SurnameNet(len(train_set.alphabet) + 2)
    opt = torch.optim.Adam(model.parameters(), lr=CFG["lr"])
    for epoch in range(CFG["epochs"]):
        model.train()
        total = 0.0
        for x, y in train_loader:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            hits = sum((model(x).argmax(1) == y).sum().item() for x, y in val_loader)
        print(f"epoch {epoch} loss {total / len(train_loader):.3f} val accuracy {hits / len(val_set):.3f}")


main()
