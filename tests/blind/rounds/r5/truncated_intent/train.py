import json
import pathlib
import sys
from types import SimpleNamespace
import torch
from torch import nn

folder = pathlib.Path(sys.argv[1])
cfg = SimpleNamespace(**json.loads((folder / "config.json").read_text()))
calls = [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]


class IntentModel(nn.Module):
    def __init__(self, n_words, n_intents):
        super().__init__()
        self.embedding = nn.Embedding(n_words, cfg.dim, padding_idx=0)
        self.conv = nn.Conv1d(cfg.dim, cfg.hidden, 3, padding=1)
        self.out = nn.Linear(cfg.hidden, n_intents)

    def forward(self, ids):
        h = torch.relu(self.conv(self.embedding(ids).transpose(1, 2)))
        h = h.masked_fill((ids == 0).unsqueeze(1), 0.0)
        return self.out(h.max(2).values)


def encode(rows, vocab):
    ids = torch.zeros(len(rows), cfg.max_len, dtype=torch.long)
    for i, row in enumerate(rows):
        tokens = [vocab.get(w, 1) for w in row["text"].split()][: cfg.max_len]
        ids[i, : len(tokens)] = torch.tensor(tokens)
    return ids


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


torch.manual_seed(51)
cut = int(len(calls) * cfg.valid_share)
order = torch.randperm(len(calls)).tolist()
valid_rows, train_rows = [calls[i] for i in order[:cut]], [calls[i] for i in order[cut:]]
vocab = {w: i + 2 for i, w in enumerate(sorted({w for r in train_rows for w in r["text"].split()}))}
intents = sorted({r["intent"] for r in train_rows})
x_train, x_valid = encode(train_rows, vocab), encode(valid_rows, vocab)
y_train, y_valid = (torch.tensor([intents.index(r["intent"]) for r in rows]) for rows in (train_rows, valid_rows))
model = IntentModel(len(vocab) + 2, len(intents))
optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
for epoch in range(cfg.epochs):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(x_train)).split(cfg.batch_size):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x_train[idx]), y_train[idx])
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    print(f"epoch {epoch} loss {total / len(x_train):.4f} valid acc {accuracy(model, x_valid, y_valid):.3f}")
print(f"valid accuracy {accuracy(model, x_valid, y_valid):.3f}")
