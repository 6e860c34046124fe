"""Does a protein stay in the endoplasmic reticulum? GRU over amino acids."""
import json
import sys
from pathlib import Path
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

AMINO = "ACDEFGHIKLMNPQRSTVWY"
PAD = 0
CODE = {a: i + 1 for i, a in enumerate(AMINO)}


def read_split(path, max_len):
    tokens, lengths, labels = [], [], []
    for line in path.read_text().splitlines():
        seq, where = line.split("\t")
        ids = [CODE[a] for a in seq[:max_len]]
        lengths.append(len(ids))
        tokens.append(ids + [PAD] * (max_len - len(ids)))
        labels.append(float(where == "ER"))
    return torch.tensor(tokens), torch.tensor(lengths), torch.tensor(labels)


class LocalisationGRU(nn.Module):
    def __init__(self, embed, hidden):
        super().__init__()
        self.embed = nn.Embedding(len(AMINO) + 1, embed, padding_idx=PAD)
        self.gru = nn.GRU(embed, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, tok, length):
        packed = pack_padded_sequence(self.embed(tok), length, batch_first=True, enforce_sorted=False)
        _, h = self.gru(packed)
        return self.head(h[-1]).squeeze(1)


@torch.no_grad()
def evaluate(model, split):
    model.eval()
    tok, length, y = split
    logits = model(tok, length)
    loss = nn.functional.binary_cross_entropy_with_logits(logits, y).item()
    return loss, ((logits > 0) == (y > 0.5)).float().mean().item()


def main():
    folder = Path(sys.argv[1])
    cfg = json.loads((folder / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    train = read_split(folder / "train.tsv", cfg["max_len"])
    val = read_split(folder / "val.tsv", cfg["max_len"])
    tok, length, y = train
    model = LocalisationGRU(cfg["embed"], cfg["hidden"])
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    for epoch in range(cfg["epochs"]):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(y)).split(cfg["batch"]):
            loss = nn.functional.binary_cross_entropy_with_logits(model(tok[idx], length[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.item() * len(idx)
        vl, acc = evaluate(model, val)
        print(f"epoch {epoch:2d}  train {total / len(y):.4f}  val {vl:.4f}  val acc {acc:.3f}")


if __name__ == "__main__":
    main()
