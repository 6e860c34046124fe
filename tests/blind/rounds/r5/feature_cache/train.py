"""Department of a product from its title; hashed word counts are cached in FOLDER/cache."""
import pathlib
import sys
import zlib
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BUCKETS = 40


def hash_title(title):
    vector = torch.zeros(BUCKETS)
    for word in title.split():
        vector[zlib.crc32(word.encode()) % BUCKETS] += 1
    return vector


class ProductTable:
    def __init__(self, folder):
        self.folder = folder
        lines = (folder / "products.tsv").read_text().splitlines()
        self.ids, departments, self.titles = zip(*(line.split("\t") for line in lines))
        self.classes = sorted(set(departments))
        self.labels = torch.tensor([self.classes.index(d) for d in departments])

    def features(self):
        cached = self.folder / "cache" / "features.pt"
        if cached.exists():
            stored = torch.load(cached, weights_only=True)
            if stored.shape == (len(self.titles), BUCKETS):
                return stored.float()
        return torch.stack([hash_title(t) for t in self.titles])


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def main(folder):
    torch.manual_seed(33)
    table = ProductTable(folder)
    x, y = table.features(), table.labels
    order = torch.randperm(len(x))
    train, valid = order[300:], order[:300]
    loader = DataLoader(TensorDataset(x[train], y[train]), batch_size=40, shuffle=True)
    model = nn.Sequential(nn.Linear(BUCKETS, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, len(table.classes)))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    for epoch in range(8):
        model.train()
        total = 0.0
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(xb), yb)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.4f} valid acc {accuracy(model, x[valid], y[valid]):.3f}")
    print(f"valid accuracy {accuracy(model, x[valid], y[valid]):.3f} of {len(table.classes)} departments")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
