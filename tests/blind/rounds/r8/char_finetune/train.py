"""Adapt a pretrained character model to the late plays."""
import json
import math
import sys
from pathlib import Path
import torch
from torch import nn
import torch.nn.functional as F

SEQ, BATCH, STEPS, LR = 48, 24, 90, 1e-3


class CharGRU(nn.Module):
    def __init__(self, n_vocab, embed=24, hidden=80):
        super().__init__()
        self.embed = nn.Embedding(n_vocab, embed)
        self.gru = nn.GRU(embed, hidden, batch_first=True)
        self.out = nn.Linear(hidden, n_vocab)

    def forward(self, idx):
        h, _ = self.gru(self.embed(idx))
        return self.out(h)


def encode(text, stoi):
    return torch.tensor([stoi[c] for c in text])


def sequences(ids, width):
    n = len(ids) // width
    return ids[:n * width].view(n, width)


@torch.no_grad()
def bits_per_char(model, data):
    model.eval()
    total = 0.0
    for part in data.split(64):
        logits = model(part[:, :-1])
        total += F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten()).item() * len(part)
    return total / len(data) / math.log(2)


def main(folder):
    torch.manual_seed(99)
    vocab = json.loads((folder / "vocab.json").read_text())
    stoi = {c: i for i, c in enumerate(vocab)}
    ids = encode((folder / "scene.txt").read_text(), stoi)
    cut = int(len(ids) * 0.85)
    train, val = sequences(ids[:cut], SEQ + 1), sequences(ids[cut:], SEQ + 1)[:200]

    model = CharGRU(len(vocab))
    model.load_state_dict(torch.load(folder / "base_model.pt"))
    print(f"{len(vocab)} characters, {len(train)} training sequences")
    opt = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01)
    step = 0
    running = 0.0
    while step < STEPS:
        for idx in torch.randperm(len(train)).split(BATCH):
            model.train()
            batch = train[idx]
            loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            step += 1
            running += loss.item()
            if step % 30 == 0:
                print(f"step {step:4d}  train loss {running / 30:.3f}  val bpc {bits_per_char(model, val):.3f}")
                running = 0.0
            if step == STEPS:
                break


if __name__ == "__main__":
    main(Path(sys.argv[1]))
