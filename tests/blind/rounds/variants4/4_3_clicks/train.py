import argparse
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import f1_score
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader


def sessions(path):
    z = np.load(path)
    times, pages, offsets, bot = z["time"], z["page"], z["offset"], z["bot"]
    out = []
    for i, label in enumerate(bot):
        lo, hi = offsets[i], offsets[i + 1]
        gaps = np.diff(times[lo:hi], prepend=times[lo])
        out.append({
            "gap": torch.tensor(np.log1p(gaps), dtype=torch.float32),
            "page": torch.tensor(pages[lo:hi], dtype=torch.long),
            "bot": float(label),
        })
    return out


def collate(items):
    return {
        "gap": pad_sequence([s["gap"] for s in items], batch_first=True),
        "page": pad_sequence([s["page"] for s in items], batch_first=True),
        "length": torch.tensor([len(s["gap"]) for s in items]),
        "bot": torch.tensor([s["bot"] for s in items]),
    }


class SessionModel(nn.Module):
    def __init__(self, pages=30, dim=12, hidden=32):
        super().__init__()
        self.page = nn.Embedding(pages, dim)
        self.rnn = nn.LSTM(dim + 1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, batch):
        x = torch.cat([self.page(batch["page"]), batch["gap"].unsqueeze(-1)], dim=-1)
        packed = pack_padded_sequence(x, batch["length"], batch_first=True, enforce_sorted=False)
        _, (h, _) = self.rnn(packed)
        return self.out(h[-1]).squeeze(-1)


def validate(model, loader):
    model.eval()
    p, t = [], []
    with torch.no_grad():
        for batch in loader:
            p += (model(batch) > 0).int().tolist()
            t += batch["bot"].int().tolist()
    return f1_score(t, p)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=Path)
    folder = ap.parse_args().folder
    torch.manual_seed(8)
    train_loader = DataLoader(sessions(folder / "train.npz"), batch_size=64, shuffle=True, collate_fn=collate)
    valid_loader = DataLoader(sessions(folder / "valid.npz"), batch_size=256, collate_fn=collate)
    model = SessionModel()
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for epoch in range(6):
        model.train()
        total, count = 0.0, 0
        for batch in train_loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(batch), batch["bot"])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(batch["bot"])
            count += len(batch["bot"])
        print(f"{epoch}\tloss {total / count:.4f}\tF1 {validate(model, valid_loader):.4f}")
    print(f"final F1\t{validate(model, valid_loader):.4f}")


if __name__ == "__main__":
    main()
