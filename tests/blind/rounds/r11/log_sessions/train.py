import json
import os
import sys
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

DIR = sys.argv[1]


class Tokenizer:
    def __init__(self, folder):
        self.vocab = json.load(open(os.path.join(folder, "vocab.json")))
        self.conf = json.load(open(os.path.join(folder, "tokenizer.json")))

    def encode(self, lines):
        ids = []
        for text in lines:
            if self.conf["lowercase"]:
                text = text.lower()
            ids += [self.vocab.get(w, self.vocab["<unk>"]) for w in text.split()]
            ids.append(self.vocab["<eol>"])
        ids = ids[: self.conf["max_tokens"]]
        return ids + [self.vocab["<pad>"]] * (self.conf["max_tokens"] - len(ids))


class Sessions(Dataset):
    def __init__(self, part, tok):
        rows = [json.loads(l) for l in open(os.path.join(DIR, part + ".jsonl"))]
        self.x = torch.tensor([tok.encode(r["lines"]) for r in rows])
        self.y = torch.tensor([float(r["label"]) for r in rows])

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Detector(nn.Module):
    def __init__(self, n_vocab, dim=24, ch=48):
        super().__init__()
        self.emb = nn.Embedding(n_vocab, dim, padding_idx=0)
        self.conv = nn.ModuleList([nn.Conv1d(dim, ch, k, padding=k // 2) for k in (3, 9)])
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(2 * ch, 1)

    def forward(self, ids):
        e = self.emb(ids).transpose(1, 2)
        h = torch.cat([torch.relu(c(e)).amax(-1) for c in self.conv], dim=1)
        return self.fc(self.drop(h)).squeeze(1)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    ok = n = 0
    for x, y in loader:
        ok += ((model(x) > 0).float() == y).sum().item()
        n += len(y)
    return ok / n


def main():
    torch.manual_seed(17)
    tok = Tokenizer(DIR)
    loaders = {p: DataLoader(Sessions(p, tok), batch_size=50, shuffle=p == "train") for p in ("train", "val", "test")}
    model = Detector(len(tok.vocab))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(8):
        model.train()
        s = 0.0
        for x, y in loaders["train"]:
            opt.zero_grad()
            loss = bce(model(x), y)
            loss.backward()
            opt.step()
            s += loss.item() / len(loaders["train"])
        print(f"[{epoch}] bce {s:.4f} val acc {accuracy(model, loaders['val']):.4f}")
    print(f"test acc {accuracy(model, loaders['test']):.4f}")


if __name__ == "__main__":
    main()
