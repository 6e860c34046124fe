"""Send keeper notes to the right desk, on top of word vectors from the archive. Usage: python train.py DIR"""
import json
import os
import sys

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence


def read_jsonl(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


class Notes(torch.utils.data.Dataset):
    def __init__(self, rows, vocab, desks):
        index = {w: i for i, w in enumerate(vocab)}
        unk = index["<unk>"]
        self.items = []
        missing = total = 0
        for r in rows:
            ids = [index.get(w, unk) for w in r["note"].split()]
            missing += ids.count(unk)
            total += len(ids)
            self.items.append((torch.tensor(ids), desks.index(r["desk"])))
        self.coverage = 1 - missing / total

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    ids, desks = zip(*batch)
    lengths = torch.tensor([len(i) for i in ids])
    return pad_sequence(ids, batch_first=True), lengths, torch.tensor(desks)


class NoteRouter(nn.Module):
    def __init__(self, weight, hidden, n_desks):
        super().__init__()
        self.words = nn.Embedding.from_pretrained(weight, freeze=True, padding_idx=0)
        self.rnn = nn.GRU(weight.shape[1], hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(2 * hidden, n_desks)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.words(ids), lengths, batch_first=True, enforce_sorted=False)
        _, h = self.rnn(packed)
        return self.out(self.drop(torch.cat([h[0], h[1]], dim=1)))


def run_epoch(model, loader, opt=None):
    model.train(opt is not None)
    loss_sum = right = n = 0
    with torch.set_grad_enabled(opt is not None):
        for ids, lengths, desks in loader:
            logits = model(ids, lengths)
            loss = nn.functional.cross_entropy(logits, desks)
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                opt.step()
            loss_sum += loss.item() * len(desks)
            right += (logits.argmax(1) == desks).sum().item()
            n += len(desks)
    return loss_sum / n, right / n


def main(folder):
    with open(os.path.join(folder, "setup.json")) as f:
        cfg = json.load(f)
    torch.manual_seed(cfg["seed"])
    with open(os.path.join(folder, "vocab.txt")) as f:
        vocab = f.read().split()
    ckpt = torch.load(os.path.join(folder, "wordvec.pt"), weights_only=True)
    weight = ckpt["embedding.weight"]
    assert weight.shape[0] == len(vocab), "vocabulary and vectors differ in size"
    assert len(set(vocab)) == len(vocab)

    train = Notes(read_jsonl(os.path.join(folder, "train.jsonl")), vocab, cfg["desks"])
    val = Notes(read_jsonl(os.path.join(folder, "val.jsonl")), vocab, cfg["desks"])
    print(f"{len(train)} notes, word coverage {train.coverage:.3f} / {val.coverage:.3f}")
    loader = torch.utils.data.DataLoader(train, cfg["batch"], shuffle=True, collate_fn=collate)
    val_loader = torch.utils.data.DataLoader(val, 200, collate_fn=collate)

    model = NoteRouter(weight, cfg["hidden"], len(cfg["desks"]))
    opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=cfg["lr"])
    for epoch in range(cfg["epochs"]):
        loss, acc = run_epoch(model, loader, opt)
        vloss, vacc = run_epoch(model, val_loader)
        print(f"{epoch + 1:2d} train {loss:.3f} / {acc:.3f}   val {vloss:.3f} / {vacc:.3f}")
    print(f"val accuracy {vacc:.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
