"""Route kimchi shop reviews to the team that has to answer them (BiLSTM over word tokens)."""
import json
import random
import sys
from pathlib import Path

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

root = Path(sys.argv[1])
cfg = json.loads((root / "config.json").read_text(encoding="utf-8"))
vocab = json.loads((root / "vocab.json").read_text(encoding="utf-8"))
teams = {name: i for i, name in enumerate(cfg["teams"])}
PAD, UNK = vocab["<pad>"], vocab["<unk>"]
torch.manual_seed(cfg["seed"])
random.seed(cfg["seed"])


def read(name):
    samples = []
    for line in (root / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        ids = [vocab.get(w, UNK) for w in item["text"].split()]
        samples.append((torch.tensor(ids), teams[item["team"]]))
    return samples


def batches(samples, size, shuffle):
    order = list(range(len(samples)))
    if shuffle:
        random.shuffle(order)
    for start in range(0, len(order), size):
        chunk = [samples[i] for i in order[start:start + size]]
        lengths = torch.tensor([len(x) for x, _ in chunk])
        yield (pad_sequence([x for x, _ in chunk], batch_first=True, padding_value=PAD), lengths,
               torch.tensor([y for _, y in chunk]))


class Router(nn.Module):
    def __init__(self, n_words, n_teams, dim, hidden):
        super().__init__()
        self.embed = nn.Embedding(n_words, dim, padding_idx=PAD)
        self.lstm = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.25)
        self.out = nn.Linear(2 * hidden, n_teams)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.drop(self.embed(ids)), lengths, batch_first=True, enforce_sorted=False)
        _, (h, _) = self.lstm(packed)
        return self.out(self.drop(torch.cat([h[0], h[1]], dim=1)))


train, val = read("train"), read("val")
model = Router(len(vocab), len(teams), cfg["embedding"], cfg["hidden"])
opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
loss_fn = nn.CrossEntropyLoss()

for epoch in range(cfg["epochs"]):
    model.train()
    total = 0.0
    for ids, lengths, y in batches(train, cfg["batch_size"], shuffle=True):
        opt.zero_grad()
        loss = loss_fn(model(ids, lengths), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        total += loss.item() * len(y)

    model.eval()
    table = torch.zeros(len(teams), len(teams), dtype=torch.long)
    with torch.no_grad():
        for ids, lengths, y in batches(val, 128, shuffle=False):
            for t, p in zip(y, model(ids, lengths).argmax(1)):
                table[t, p] += 1
    tp = table.diag().float()
    f1 = (2 * tp / (table.sum(0) + table.sum(1)).clamp(min=1)).mean().item()
    print(f"epoch {epoch + 1}: train loss {total / len(train):.4f}  "
          f"val accuracy {tp.sum().item() / len(val):.3f}  macro F1 {f1:.3f}")
