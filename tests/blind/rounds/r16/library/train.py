"""Will this reader like this book? Reader profiles are looked up by membership number."""
import sys
import numpy as np
import torch
import torch.nn as nn


class Matcher(nn.Module):
    def __init__(self, dim, hidden=24):
        super().__init__()
        self.reader = nn.Linear(dim, hidden)
        self.book = nn.Linear(dim, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, r, b):
        return self.out(self.reader(r) * self.book(b)).squeeze(1)


def loans(folder, part, ids, profile, books):
    z = np.load(f"{folder}/{part}.npz")
    row = np.searchsorted(ids, z["reader_id"].astype(np.int64))
    row = np.clip(row, 0, len(ids) - 1)
    return (torch.from_numpy(profile[row]), torch.from_numpy(books[z["book"]]),
            torch.from_numpy(z["liked"]).float())


def main(folder):
    torch.manual_seed(20)
    readers = np.load(f"{folder}/readers.npz")
    books = np.load(f"{folder}/books.npy")
    args = (readers["reader_id"], readers["profile"], books)
    train = loans(folder, "loans_train", *args)
    test = loans(folder, "loans_test", *args)
    net = Matcher(books.shape[1])
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    n = len(train[2])
    for epoch in range(8):
        tot = 0.0
        for rows in torch.randperm(n).split(100):
            r, b, y = (t[rows] for t in train)
            loss = nn.functional.binary_cross_entropy_with_logits(net(r, b), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(rows)
        with torch.no_grad():
            acc = ((net(test[0], test[1]) > 0).float() == test[2]).float().mean().item()
        print(f"epoch {epoch + 1}: loss {tot / n:.3f}  test accuracy {acc:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
