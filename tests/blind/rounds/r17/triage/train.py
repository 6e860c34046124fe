import json
import re
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    folder: str
    dim: int = 48
    lr: float = 3e-3
    batch: int = 60
    epochs: int = 10
    seed: int = 17


class Notes(Dataset):
    """Free-text complaints with the condition noted by the physician."""

    def __init__(self, path, vocab, conditions):
        self.items = []
        unk = vocab["<unk>"]
        for line in open(path):
            rec = json.loads(line)
            words = re.findall(r"[a-z]+", rec["text"].lower())
            ids = [vocab.get(w, unk) for w in words]
            self.items.append((torch.tensor(ids), conditions.index(rec["condition"])))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    ids, labels = zip(*batch)
    return pad_sequence(ids, batch_first=True), torch.tensor(labels)


class Triage(nn.Module):
    def __init__(self, n_words, dim, n_out):
        super().__init__()
        self.emb = nn.Embedding(n_words, dim, padding_idx=0)
        self.score = nn.Linear(dim, 1)
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Dropout(0.3), nn.Linear(dim, n_out))

    def forward(self, ids):
        e = self.emb(ids)
        s = self.score(e).squeeze(-1).masked_fill(ids == 0, float("-inf"))
        return self.out((s.softmax(1).unsqueeze(-1) * e).sum(1))


def main(cfg):
    torch.manual_seed(cfg.seed)
    vocab = json.load(open(f"{cfg.folder}/vocab.json"))
    conditions = sorted({json.loads(l)["condition"] for l in open(f"{cfg.folder}/train.jsonl")})
    train = Notes(f"{cfg.folder}/train.jsonl", vocab, conditions)
    test = Notes(f"{cfg.folder}/test.jsonl", vocab, conditions)
    model = Triage(len(vocab), cfg.dim, len(conditions))
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    loader = DataLoader(train, cfg.batch, shuffle=True, collate_fn=collate)
    for epoch in range(cfg.epochs):
        model.train()
        losses = []
        for ids, y in loader:
            loss = F.cross_entropy(model(ids), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch} train loss {sum(losses) / len(losses):.4f}")
    model.eval()
    with torch.no_grad():
        hit = sum((model(ids).argmax(1) == y).sum().item() for ids, y in DataLoader(test, 200, collate_fn=collate))
    print(f"test accuracy {hit / len(test):.3f} over {len(conditions)} conditions")


if __name__ == "__main__":
    main(Config(sys.argv[1]))
