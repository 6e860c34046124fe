"""Guess the altitude of a place in the Highlands from the words of its Gaelic name."""
import argparse
import csv
import json
import os
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, random_split


@dataclass
class Settings:
    width: int
    heads: int
    layers: int
    dropout: float
    lr: float
    epochs: int
    batch_size: int
    val_fraction: float
    seed: int


class Gazetteer(Dataset):
    def __init__(self, folder):
        with open(os.path.join(folder, "vocabulary.json"), encoding="utf-8") as f:
            self.vocabulary = json.load(f)
        unk = self.vocabulary["<unk>"]
        self.names, self.altitude = [], []
        with open(os.path.join(folder, "gazetteer.csv"), newline="", encoding="utf-8") as f:
            for row in csv.DictReader(f):
                words = row["name"].strip().lower().split()
                self.names.append(torch.tensor([self.vocabulary.get(w, unk) for w in words]))
                self.altitude.append(float(row["altitude_m"]))

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        return self.names[i], self.altitude[i]


def collate(batch):
    names, altitude = zip(*batch)
    ids = nn.utils.rnn.pad_sequence(names, batch_first=True, padding_value=0)
    return ids, torch.tensor(altitude, dtype=torch.float32)


class NameModel(nn.Module):
    def __init__(self, n_tokens, s, max_len=12):
        super().__init__()
        self.tokens = nn.Embedding(n_tokens, s.width, padding_idx=0)
        self.places = nn.Embedding(max_len, s.width)
        layer = nn.TransformerEncoderLayer(s.width, s.heads, 2 * s.width, s.dropout, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, s.layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(s.width)
        self.out = nn.Linear(s.width, 1)

    def forward(self, ids):
        pad = ids == 0
        h = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        h = self.norm(self.encoder(h, src_key_padding_mask=pad))
        keep = (~pad).unsqueeze(-1).float()
        return self.out((h * keep).sum(1) / keep.sum(1)).squeeze(-1)


class Trainer:
    def __init__(self, folder):
        with open(os.path.join(folder, "settings.json")) as f:
            self.s = Settings(**json.load(f))
        torch.manual_seed(self.s.seed)
        data = Gazetteer(folder)
        n_val = int(len(data) * self.s.val_fraction)
        train, val = random_split(data, [len(data) - n_val, n_val])
        self.train_loader = DataLoader(train, self.s.batch_size, shuffle=True, collate_fn=collate)
        self.val_loader = DataLoader(val, 256, collate_fn=collate)
        logs = torch.tensor([data.altitude[i] for i in train.indices]).log()
        self.mean, self.std = logs.mean(), logs.std()
        self.model = NameModel(len(data.vocabulary), self.s)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=self.s.lr, weight_decay=1e-3)
        self.sched = torch.optim.lr_scheduler.OneCycleLR(self.opt, self.s.lr, total_steps=self.s.epochs * len(self.train_loader))

    def fit(self):
        for epoch in range(1, self.s.epochs + 1):
            self.model.train()
            running = 0.0
            for ids, altitude in self.train_loader:
                loss = nn.functional.mse_loss(self.model(ids), (altitude.log() - self.mean) / self.std)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                self.sched.step()
                running += loss.item()
            if epoch % 4 == 0:
                mae, r2 = self.validate()
                print(f"epoch {epoch:2d}: train {running / len(self.train_loader):.4f}   val MAE {mae:.1f} m   val R2(log) {r2:.3f}")

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        guess, true = [], []
        for ids, altitude in self.val_loader:
            guess.append(self.model(ids) * self.std + self.mean)
            true.append(altitude.log())
        guess, true = torch.cat(guess), torch.cat(true)
        r2 = 1 - ((guess - true) ** 2).sum() / ((true - true.mean()) ** 2).sum()
        return (guess.exp() - true.exp()).abs().mean().item(), r2.item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    Trainer(parser.parse_args().folder).fit()
