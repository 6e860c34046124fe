import gzip, os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def read_idx(kind, part, n, root=os.environ["TRUELOOP_DATA"] + "/mnist"):
    with gzip.open(f"{root}/{part}-{kind}.gz") as f:
        if "images" in kind:
            raw = np.frombuffer(f.read(16 + n * 784), np.uint8, offset=16)
            return torch.tensor(raw.reshape(n, 784) / 255.0, dtype=torch.float32)
        return torch.tensor(np.frombuffer(f.read(8 + n), np.uint8, offset=8).astype(np.int64))


class Embedder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, dim))

    def forward(self, x):
        return F.normalize(self.net((x - 0.13) / 0.31), dim=1)


class HardNegativeTriplet(nn.Module):
    def __init__(self, margin=0.3):
        super().__init__()
        self.margin = margin

    def forward(self, z, y):
        dist = (2 - 2 * z @ z.t()).clamp(min=1e-8).sqrt()
        same = (y[:, None] == y[None, :]).float()
        different = 1 - same
        mean_pos = (dist * same).sum(1) / (same.sum(1) - 1)
        hardest_neg = (dist + 10.0 * (1 - different)).min(1).values
        return F.relu(mean_pos - hardest_neg + self.margin).mean()


def balanced_batches(y, per_class, count, rng):
    pools = [np.flatnonzero(y.numpy() == c) for c in range(10)]
    for _ in range(count):
        yield torch.tensor(np.concatenate([rng.choice(p, per_class, replace=False) for p in pools]))


@torch.no_grad()
def nearest_neighbour_accuracy(model, gallery, gallery_y, query, query_y):
    model.eval()
    sim = model(query) @ model(gallery).t()
    return (gallery_y[sim.argmax(1)] == query_y).float().mean().item()


def main():
    torch.manual_seed(6)
    rng = np.random.default_rng(6)
    x, y = read_idx("images-idx3-ubyte", "train", 4000), read_idx("labels-idx1-ubyte", "train", 4000)
    qx, qy = read_idx("images-idx3-ubyte", "t10k", 800), read_idx("labels-idx1-ubyte", "t10k", 800)
    model = Embedder()
    criterion = HardNegativeTriplet()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(5):
        model.train()
        losses = []
        for idx in balanced_batches(y, per_class=6, count=40, rng=rng):
            loss = criterion(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        score = nearest_neighbour_accuracy(model, x, y, qx, qy)
        print(f"epoch {epoch} triplet {np.mean(losses):.4f} recall@1 {score:.3f}")


if __name__ == "__main__":
    main()
