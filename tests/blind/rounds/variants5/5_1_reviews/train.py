import sys
from pathlib import Path

import numpy as np
import torch
import yaml
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, TensorDataset


def read(folder, part):
    tokens = torch.from_numpy(np.load(folder / f"{part}_tokens.npy")).long()
    lengths = torch.from_numpy(np.loadtxt(folder / f"{part}_lengths.txt", dtype=np.int64))
    stars = torch.from_numpy(np.loadtxt(folder / f"{part}_labels.txt", dtype=np.int64))
    return TensorDataset(tokens, lengths, stars)


class ReviewClassifier(nn.Module):
    def __init__(self, vocab, dim, hidden, n_out, pad):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=pad)
        self.rnn = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(2 * hidden, n_out)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        _, h = self.rnn(packed)
        return self.out(self.drop(torch.cat([h[0], h[1]], dim=1)))


def step(model, batch):
    tokens, lengths, stars = batch
    logits = model(tokens, lengths)
    return nn.functional.cross_entropy(logits, stars), (logits.argmax(1) == stars).sum().item()


def run_epoch(model, loader, opt=None):
    model.train(opt is not None)
    loss_sum = hits = count = 0
    with torch.set_grad_enabled(opt is not None):
        for batch in loader:
            loss, right = step(model, batch)
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
            loss_sum += loss.item() * len(batch[2])
            hits += right
            count += len(batch[2])
    return loss_sum / count, hits / count


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    cfg = yaml.safe_load((folder / "config.yml").read_text())
    torch.manual_seed(cfg["seed"])
    loaders = {p: DataLoader(read(folder, p), batch_size=cfg["batch_size"], shuffle=p == "train") for p in ("train", "valid", "test")}
    model = ReviewClassifier(cfg["vocab_size"], cfg["dim"], cfg["hidden"], cfg["n_classes"], cfg["pad_id"])
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    best, weights = -1.0, None
    for epoch in range(1, cfg["epochs"] + 1):
        loss, acc = run_epoch(model, loaders["train"], opt)
        _, valid = run_epoch(model, loaders["valid"])
        if valid > best:
            best, weights = valid, {k: v.clone() for k, v in model.state_dict().items()}
        print(f"epoch {epoch}: loss {loss:.4f} train acc {acc:.4f} valid acc {valid:.4f}")
    model.load_state_dict(weights)
    print(f"test acc {run_epoch(model, loaders['test'])[1]:.4f}")
