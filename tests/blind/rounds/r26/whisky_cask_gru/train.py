"""Evaporation loss of maturing casks from the quarterly warehouse record."""
import json
import pathlib
import sys

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence


def read(path):
    seqs, loss = [], []
    for line in path.read_text().splitlines():
        r = json.loads(line)
        seqs.append(torch.tensor([r["temp_c"], r["rel_humidity"]]).T.contiguous())
        loss.append(r["loss_pct"])
    return seqs, torch.tensor(loss)


class CaskNet(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.gru = nn.GRU(2, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        _, h = self.gru(packed)
        return self.head(h[-1]).squeeze(-1)


class Trainer:
    def __init__(self, folder):
        self.cfg = json.loads((folder / "settings.json").read_text())
        torch.manual_seed(self.cfg["seed"])
        self.train_x, self.train_y = read(folder / "train.jsonl")
        self.valid_x, self.valid_y = read(folder / "valid.jsonl")
        steps = torch.cat(self.train_x)
        self.mean, self.std = steps.mean(0), steps.std(0)
        self.y_mean, self.y_std = self.train_y.mean(), self.train_y.std()
        self.lengths = torch.tensor([len(s) for s in self.train_x])
        self.net = CaskNet(self.cfg["hidden"])
        self.opt = torch.optim.Adam(self.net.parameters(), lr=self.cfg["lr"])
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, self.cfg["epochs"], 2e-4)

    def batch(self, seqs):
        lengths = torch.tensor([len(s) for s in seqs])
        x = pad_sequence([(s - self.mean) / self.std for s in seqs], batch_first=True)
        return x, lengths

    def epoch(self, number):
        cur = self.cfg["curriculum"]
        limit = cur["start_quarters"] + int(cur["add_per_epoch"] * number)
        pool = (self.lengths <= limit).nonzero().squeeze(1)
        pool = pool[torch.randperm(len(pool))]
        self.net.train()
        total = 0.0
        for idx in pool.split(self.cfg["batch_size"]):
            x, n = self.batch([self.train_x[i] for i in idx.tolist()])
            y = (self.train_y[idx] - self.y_mean) / self.y_std
            loss = nn.functional.smooth_l1_loss(self.net(x, n), y)
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
            self.opt.step()
            total += loss.item() * len(idx)
        self.sched.step()
        return total / len(pool)

    @torch.no_grad()
    def validate(self):
        self.net.eval()
        x, n = self.batch(self.valid_x)
        pred = self.net(x, n) * self.y_std + self.y_mean
        return (pred - self.valid_y).abs().mean().item()

    def fit(self):
        for e in range(self.cfg["epochs"]):
            loss = self.epoch(e)
            if e % 5 == 0 or e == self.cfg["epochs"] - 1:
                print(f"epoch {e:2d}  train loss {loss:.4f}  valid MAE {self.validate():.3f} % of volume")


if __name__ == "__main__":
    torch.set_num_threads(1)
    Trainer(pathlib.Path(sys.argv[1])).fit()
