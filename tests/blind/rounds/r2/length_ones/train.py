import sys

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, TensorDataset

FOLDER = sys.argv[1]
N_TRAIN = 2000


class HistoryGRU(nn.Module):
    def __init__(self, vocab=10, dim=12, hidden=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.gru = nn.GRU(dim, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.emb(tokens), lengths, batch_first=True, enforce_sorted=False)
        return self.out(self.gru(packed)[1][0]).squeeze(1)


def load():
    tokens = torch.tensor(np.load(f"{FOLDER}/tokens.npy").astype(np.int64))
    lengths = torch.tensor(np.load(f"{FOLDER}/lengths.npy").astype(np.int64))
    labels = torch.tensor(np.load(f"{FOLDER}/labels.npy").astype(np.float32))
    return TensorDataset(tokens[:N_TRAIN], lengths[:N_TRAIN], labels[:N_TRAIN]), \
        TensorDataset(tokens[N_TRAIN:], lengths[N_TRAIN:], labels[N_TRAIN:])


def evaluate(model, loader):
    model.eval()
    right = n = 0
    with torch.no_grad():
        for tokens, lengths, y in loader:
            right += ((model(tokens, lengths) > 0).float() == y).sum().item()
            n += len(y)
    return right / n


def main():
    torch.manual_seed(41)
    train_set, val_set = load()
    train_loader = DataLoader(train_set, batch_size=50, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=200)
    model = HistoryGRU()
    opt = torch.optim.Adam(model.parameters(), lr=8e-3)
    loss_fn = nn.BCEWithLogitsLoss()
    for epoch in range(4):
        model.train()
        total = 0.0
        for tokens, lengths, y in train_loader:
            loss = loss_fn(model(tokens, lengths), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(train_loader):.3f} val accuracy {evaluate(model, val_loader):.3f}")


main()
