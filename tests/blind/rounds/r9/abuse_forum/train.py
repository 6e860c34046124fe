"""Abusive comment detector for a forum; live.tsv is a hand-labelled sample of the incoming stream."""
import sys
from collections import Counter
from pathlib import Path

import torch
import torch.nn as nn
from torch.utils.data import DataLoader

MAX_WORDS, EPOCHS, BATCH, LR = 500, 7, 32, 5e-3


def read(path):
    rows = []
    for line in path.read_text().splitlines():
        label, text = line.split("\t")
        rows.append((text.split(), float(label == "abuse")))
    return rows


class Collator:
    def __init__(self, rows):
        counts = Counter(w for words, _ in rows for w in words)
        self.index = {w: i + 1 for i, (w, _) in enumerate(counts.most_common(MAX_WORDS))}

    def __call__(self, rows):
        flat, offsets, labels = [], [], []
        for words, label in rows:
            offsets.append(len(flat))
            flat.extend(self.index.get(w, 0) for w in words)
            labels.append(label)
        return torch.tensor(flat), torch.tensor(offsets), torch.tensor(labels)


class AbuseNet(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.bag = nn.EmbeddingBag(MAX_WORDS + 1, dim, mode="mean")
        self.net = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 1))

    def forward(self, flat, offsets):
        return self.net(self.bag(flat, offsets)).squeeze(1)


@torch.no_grad()
def score(model, loader, loss_fn):
    model.eval()
    tp = fp = fn = 0
    loss = 0.0
    for flat, offsets, y in loader:
        out = model(flat, offsets)
        loss += loss_fn(out, y).item()
        pred, true = out > 0, y > 0.5
        tp += (pred & true).sum().item()
        fp += (pred & ~true).sum().item()
        fn += (~pred & true).sum().item()
    return loss / len(loader), 2 * tp / max(2 * tp + fp + fn, 1), tp / max(tp + fn, 1)


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(30)
    train, valid, live = (read(folder / f"{n}.tsv") for n in ("train", "valid", "live"))
    collate = Collator(train)
    loader = DataLoader(train, BATCH, shuffle=True, collate_fn=collate)
    valid_loader = DataLoader(valid, 200, collate_fn=collate)
    live_loader = DataLoader(live, 200, collate_fn=collate)

    model = AbuseNet()
    n_pos = sum(label for _, label in train)
    loss_fn = nn.BCEWithLogitsLoss(pos_weight=torch.tensor((len(train) - n_pos) / n_pos))
    opt = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=1e-2)
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for flat, offsets, y in loader:
            loss = loss_fn(model(flat, offsets), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        vloss, f1, recall = score(model, valid_loader, loss_fn)
        print(f"epoch {epoch}: train {total / len(loader):.3f} valid {vloss:.3f} f1 {f1:.3f} recall {recall:.3f}")
    _, f1, recall = score(model, live_loader, loss_fn)
    print(f"live sample: f1 {f1:.3f} recall {recall:.3f}")


if __name__ == "__main__":
    main()
