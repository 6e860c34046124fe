"""Route support tickets to a queue. FOLDER holds export_a.tsv, export_b.tsv and holdout.tsv."""
import os
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader

DIM, EPOCHS = 16, 8


def read(folder, name):
    with open(os.path.join(folder, name)) as f:
        rows = [line.rstrip("\n").split("\t") for line in f]
    return [(text.split(), int(code)) for code, text in rows]


class TicketModel(nn.Module):
    def __init__(self, n_words, n_queues):
        super().__init__()
        self.embedding = nn.Embedding(n_words, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 24), nn.ReLU(), nn.Linear(24, n_queues))

    def forward(self, ids):
        return self.mlp(self.embedding(ids).mean(1))


class Collate:
    def __init__(self, vocab):
        self.vocab = vocab

    def __call__(self, rows):
        ids = torch.tensor([[self.vocab.get(w, 0) for w in words] for words, _ in rows])
        return ids, torch.tensor([label for _, label in rows])


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        return torch.cat([(model(ids).argmax(1) == y).float() for ids, y in loader]).mean().item()


def main(folder):
    torch.manual_seed(47)
    train = read(folder, "export_a.tsv") + read(folder, "export_b.tsv")
    holdout = read(folder, "holdout.tsv")
    vocab = {w: i + 1 for i, w in enumerate(sorted({w for words, _ in train for w in words}))}
    collate = Collate(vocab)
    loader = DataLoader(train, batch_size=40, shuffle=True, collate_fn=collate)
    valid = DataLoader(holdout, batch_size=200, collate_fn=collate)
    n_queues = max(label for _, label in train) + 1
    model = TicketModel(len(vocab) + 1, n_queues)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for ids, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(ids), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.4f} holdout acc {accuracy(model, valid):.3f}")
    print(f"holdout accuracy {accuracy(model, valid):.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
