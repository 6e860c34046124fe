import argparse
import json
import re
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

TOKEN = re.compile(r"[a-z][a-z\-]*")


class Tokenizer:
    def __init__(self, path):
        self.vocab = json.loads(Path(path).read_text(encoding="utf-8"))
        self.unk, self.pad = self.vocab["<unk>"], self.vocab["<pad>"]

    def __call__(self, text):
        return [self.vocab.get(tok, self.unk) for tok in TOKEN.findall(text.lower())]


class ClauseDataset(Dataset):
    def __init__(self, path, tokenizer, labels):
        self.examples = []
        for line in Path(path).read_text().splitlines():
            row = json.loads(line)
            self.examples.append((torch.tensor(tokenizer(row["text"])), labels.index(row["label"])))

    def __len__(self):
        return len(self.examples)

    def __getitem__(self, i):
        return self.examples[i]


def collate(batch):
    ids, y = zip(*batch)
    return pad_sequence(ids, batch_first=True), torch.tensor(y)


class ClauseClassifier(nn.Module):
    def __init__(self, n_vocab, n_labels, dim=48):
        super().__init__()
        self.emb = nn.Embedding(n_vocab, dim, padding_idx=0)
        self.gru = nn.GRU(dim, dim // 2, batch_first=True, bidirectional=True)
        self.attn = nn.Linear(dim, 1)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(dim, n_labels)

    def forward(self, ids):
        mask = ids == 0
        h, _ = self.gru(self.emb(ids))
        w = self.attn(torch.tanh(h)).squeeze(-1).masked_fill(mask, float("-inf")).softmax(-1)
        return self.out(self.drop((w[..., None] * h).sum(1)))


@torch.no_grad()
def score(model, loader, n_labels):
    model.eval()
    conf = torch.zeros(n_labels, n_labels)
    for ids, y in loader:
        for t, p in zip(y, model(ids).argmax(-1)):
            conf[t, p] += 1
    f1 = 2 * conf.diag() / (conf.sum(0) + conf.sum(1)).clamp(min=1)
    return (conf.diag().sum() / conf.sum()).item(), f1.mean().item()


def main():
    parser = argparse.ArgumentParser(description="Clause type classification")
    parser.add_argument("data", type=Path)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=19)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    labels = json.loads((args.data / "labels.json").read_text())
    tokenizer = Tokenizer(args.data / "vocab.json")
    train = DataLoader(ClauseDataset(args.data / "train.jsonl", tokenizer, labels), args.batch_size, shuffle=True,
                       collate_fn=collate)
    dev = DataLoader(ClauseDataset(args.data / "dev.jsonl", tokenizer, labels), 100, collate_fn=collate)
    model = ClauseClassifier(len(tokenizer.vocab), len(labels))
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(1, args.epochs + 1):
        model.train()
        total = 0.0
        for ids, y in train:
            loss = nn.functional.cross_entropy(model(ids), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.item()
        acc, f1 = score(model, dev, len(labels))
        print(f"epoch {epoch} loss {total / len(train):.4f} dev acc {acc:.4f} macro-f1 {f1:.4f}", flush=True)
    print(f"dev accuracy {acc:.4f}")


if __name__ == "__main__":
    main()
