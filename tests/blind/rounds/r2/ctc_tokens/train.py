import json
import sys
from pathlib import Path

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

ROOT = Path(sys.argv[1])
TOKENS = (ROOT / "tokens.txt").read_text().split()
INDEX = {t: i for i, t in enumerate(TOKENS)}


def load(name):
    items = []
    for line in (ROOT / name).read_text().splitlines():
        u = json.loads(line)
        items.append((torch.tensor(u["feats"], dtype=torch.float32) / 20, torch.tensor([INDEX[c] for c in u["text"]])))
    return items


def collate(items):
    feats, labels = zip(*items)
    return (pad_sequence(feats, batch_first=True), torch.tensor([len(f) for f in feats]),
            pad_sequence(labels, batch_first=True), torch.tensor([len(l) for l in labels]))


class Letters(nn.Module):
    def __init__(self, n_tokens, n_feats=8, width=48):
        super().__init__()
        self.c1 = nn.Conv1d(n_feats, width, 3, padding=1)
        self.c2 = nn.Conv1d(width, width, 5, padding=2)
        self.out = nn.Linear(width, n_tokens)

    def forward(self, feats):
        h = torch.relu(self.c1(feats.transpose(1, 2)))
        h = torch.relu(self.c2(h)).transpose(1, 2)
        return self.out(h).log_softmax(-1)


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        last, row[0] = row[0], i + 1
        for j, y in enumerate(b):
            last, row[j + 1] = row[j + 1], min(row[j] + 1, row[j + 1] + 1, last + (x != y))
    return row[-1]


def character_error_rate(model, loader):
    model.eval()
    errors = total = 0
    with torch.no_grad():
        for feats, n_frames, labels, n_labels in loader:
            for path, t, ref, n in zip(model(feats).argmax(-1), n_frames, labels, n_labels):
                hyp = [k for k in torch.unique_consecutive(path[:t]).tolist() if k != 0]
                errors += distance(hyp, ref[:n].tolist())
                total += int(n)
    return errors / total


def main():
    torch.manual_seed(70)
    train = DataLoader(load("train.jsonl"), batch_size=13, shuffle=True, collate_fn=collate)
    dev = DataLoader(load("dev.jsonl"), batch_size=40, collate_fn=collate)
    model = Letters(len(TOKENS))
    ctc = nn.CTCLoss(blank=0, zero_infinity=True)
    opt = torch.optim.Adam(model.parameters(), lr=6e-3)
    for epoch in range(8):
        model.train()
        total = 0.0
        for feats, n_frames, labels, n_labels in train:
            loss = ctc(model(feats).transpose(0, 1), labels, n_frames, n_labels)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} ctc {total / len(train):.3f} dev CER {character_error_rate(model, dev):.3f}")


main()
