import json
import sys
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

TAGS = ["O", "PER", "LOC", "ORG"]


class Tokenizer:
    def __init__(self, folder):
        cfg = json.loads((folder / "tokenizer_config.json").read_text())
        self.lower, self.max_len = cfg["do_lower_case"], cfg["max_len"]
        self.ids = {w: i for i, w in enumerate((folder / "vocab.txt").read_text().split("\n")) if w}

    def __call__(self, tokens):
        toks = [t.lower() if self.lower else t for t in tokens][:self.max_len]
        out = [self.ids.get(t, self.ids["[UNK]"]) for t in toks]
        return out + [0] * (self.max_len - len(out))


class Sentences(Dataset):
    def __init__(self, path, tok):
        self.items = []
        for line in open(path):
            r = json.loads(line)
            tags = [TAGS.index(t) for t in r["tags"]][:tok.max_len]
            tags += [-100] * (tok.max_len - len(tags))
            self.items.append((torch.tensor(tok(r["tokens"])), torch.tensor(tags)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Tagger(nn.Module):
    def __init__(self, v, d=24):
        super().__init__()
        self.emb = nn.Embedding(v, d, padding_idx=0)
        self.conv = nn.Conv1d(d, 32, 3, padding=1)
        self.out = nn.Linear(32, len(TAGS))

    def forward(self, x):
        return self.out(torch.relu(self.conv(self.emb(x).transpose(1, 2))).transpose(1, 2))


def f1(model, loader):
    model.eval()
    tp = pred = gold = 0
    with torch.no_grad():
        for x, y in loader:
            p = model(x).argmax(-1)
            p[y < 0] = 0
            tp += ((p == y) & (y > 0)).sum().item()
            pred += (p > 0).sum().item()
            gold += (y > 0).sum().item()
    return 2 * tp / max(pred + gold, 1)


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(0)
    tok = Tokenizer(folder)
    train = DataLoader(Sentences(folder / "train.jsonl", tok), batch_size=32, shuffle=True)
    test = DataLoader(Sentences(folder / "test.jsonl", tok), batch_size=100)
    model = Tagger(len(tok.ids))
    loss_fn = nn.CrossEntropyLoss()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(8):
        model.train()
        tot = 0.0
        for x, y in train:
            opt.zero_grad()
            loss = loss_fn(model(x).flatten(0, 1), y.flatten())
            loss.backward()
            opt.step()
            tot += loss.item()
        print(f"epoch {epoch} loss {tot / len(train):.4f}")
    print("final test entity F1", f1(model, test))


if __name__ == "__main__":
    main()
