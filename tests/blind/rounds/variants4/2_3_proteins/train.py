import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import average_precision_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def read_pairs(path, index):
    a, b, y = [], [], []
    for line in path.read_text().splitlines()[1:]:
        p, q, flag = line.split("\t")
        a.append(index[p])
        b.append(index[q])
        y.append(float(flag))
    return TensorDataset(torch.tensor(a), torch.tensor(b), torch.tensor(y))


class InteractionNet(nn.Module):
    """Symmetric in its two proteins."""

    def __init__(self, table, dim=64):
        super().__init__()
        self.register_buffer("table", table)
        self.tower = nn.Sequential(nn.Linear(table.shape[1], 128), nn.ReLU(), nn.Linear(128, dim))
        self.head = nn.Sequential(nn.Linear(2 * dim, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, a, b):
        u, v = self.tower(self.table[a]), self.tower(self.table[b])
        return self.head(torch.cat([u * v, (u - v).abs()], dim=1)).squeeze(1)


def predict(model, loader):
    model.eval()
    scores, truth = [], []
    with torch.no_grad():
        for a, b, y in loader:
            scores.append(model(a, b))
            truth.append(y)
    return torch.cat(scores).numpy(), torch.cat(truth).numpy()


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(19)
    names = (folder / "proteins.txt").read_text().split()
    index = {n: i for i, n in enumerate(names)}
    desc = np.load(folder / "descriptors.npy")
    desc = (desc - desc.mean(0)) / desc.std(0)

    train = read_pairs(folder / "pairs_train.tsv", index)
    valid = read_pairs(folder / "pairs_valid.tsv", index)
    seen = {(int(a), int(b)) for a, b, _ in train}
    twice = sum((int(a), int(b)) in seen for a, b, _ in valid)
    print(f"{len(train)} training pairs, {len(valid)} validation pairs, {twice} in both")

    train_loader = DataLoader(train, batch_size=64, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=500)
    model = InteractionNet(torch.tensor(desc, dtype=torch.float32))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=5e-2)
    for epoch in range(12):
        model.train()
        total = 0.0
        for a, b, y in train_loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(a, b), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        if epoch % 3 == 2:
            s, t = predict(model, valid_loader)
            print(f"epoch {epoch + 1} loss {total / len(train):.4f} AP {average_precision_score(t, s):.4f}")
    s, t = predict(model, valid_loader)
    print(f"average precision {average_precision_score(t, s):.4f}")


if __name__ == "__main__":
    main()
