import sys
import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import Dataset, DataLoader

N_EVENTS = 9


class Sessions(Dataset):
    def __init__(self, folder, part):
        self.events = torch.from_numpy(np.load(f"{folder}/{part}_events.npy"))
        self.lengths = torch.from_numpy(np.load(f"{folder}/{part}_lengths.npy"))
        self.bought = torch.from_numpy(np.load(f"{folder}/{part}_bought.npy")).float()

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        return self.events[i], self.lengths[i], self.bought[i]


class PurchaseModel(nn.Module):
    def __init__(self, emb=8, hidden=24):
        super().__init__()
        self.emb = nn.Embedding(N_EVENTS, emb, padding_idx=0)
        self.gru = nn.GRU(emb, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, events, lengths):
        packed = pack_padded_sequence(self.emb(events), lengths, batch_first=True, enforce_sorted=False)
        _, h = self.gru(packed)
        return self.out(h[-1]).squeeze(1)


def test_accuracy(model, ds):
    model.eval()
    with torch.no_grad():
        p = model(ds.events, ds.lengths) > 0
    model.train()
    return (p.float() == ds.bought).float().mean().item()


def main(folder):
    torch.manual_seed(14)
    train, test = Sessions(folder, "train"), Sessions(folder, "test")
    loader = DataLoader(train, batch_size=60, shuffle=True)
    model = PurchaseModel()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    lossf = nn.BCEWithLogitsLoss()
    for epoch in range(8):
        for ev, ln, b in loader:
            opt.zero_grad()
            loss = lossf(model(ev, ln), b)
            loss.backward()
            opt.step()
        if epoch % 2:
            print(f"epoch {epoch + 1}: loss {loss.item():.3f}, test accuracy {test_accuracy(model, test):.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
