"""Product re-identification style embeddings with batch-hard triplets on Fashion-MNIST."""
import os
import gzip
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ROOT = os.environ["TRUELOOP_DATA"] + "/fashion-mnist/"
SEEN = [0, 1, 2, 3, 5, 7, 8]
UNSEEN = [4, 6, 9]
P, K = 7, 4
MARGIN = 0.3


def read_idx(name, count):
    with gzip.open(ROOT + name) as fh:
        if "images" in name:
            raw = np.frombuffer(fh.read(16 + 784 * count), np.uint8, offset=16)
            return torch.from_numpy(raw.reshape(-1, 1, 28, 28).copy()).float() / 255
        return torch.from_numpy(np.frombuffer(fh.read(8 + count), np.uint8, offset=8).copy()).long()


class EmbeddingNet(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 12, 5, stride=2, padding=2), nn.BatchNorm2d(12), nn.ReLU(),
            nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.BatchNorm2d(24), nn.ReLU(),
            nn.Flatten(), nn.Linear(24 * 49, dim))

    def forward(self, x):
        return F.normalize(self.body(x), dim=1)


def pairwise_distance(emb):
    return torch.sqrt((2 - 2 * emb @ emb.t()).clamp(min=1e-6))


def batch_hard_triplet(emb, labels, margin):
    dist = pairwise_distance(emb)
    same = labels[:, None] == labels[None, :]
    eye = torch.eye(len(labels), dtype=torch.bool)
    hardest_pos = (dist * (same & ~eye)).max(1).values
    hardest_neg = (dist + 10.0 * same).min(1).values
    loss = F.relu(hardest_pos - hardest_neg + margin)
    return loss.mean(), (loss > 0).float().mean()


def pk_batches(labels, steps, gen):
    pools = {c: torch.nonzero(labels == c).squeeze(1) for c in SEEN}
    for _ in range(steps):
        picks = [pools[c][torch.randperm(len(pools[c]), generator=gen)[:K]] for c in SEEN[:P]]
        yield torch.cat(picks)


@torch.no_grad()
def recall_at_1(model, x, y):
    model.eval()
    emb = torch.cat([model(chunk) for chunk in x.split(256)])
    sim = emb @ emb.t()
    sim.fill_diagonal_(-2)
    return (y[sim.argmax(1)] == y).float().mean().item(), emb.std(0).mean().item()


def main():
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(11)
    x_train, y_train = read_idx("train-images-idx3-ubyte.gz", 4000), read_idx("train-labels-idx1-ubyte.gz", 4000)
    x_test, y_test = read_idx("t10k-images-idx3-ubyte.gz", 2000), read_idx("t10k-labels-idx1-ubyte.gz", 2000)
    keep = torch.isin(y_train, torch.tensor(SEEN))
    x_train, y_train = x_train[keep], y_train[keep]
    seen = torch.isin(y_test, torch.tensor(SEEN))

    model = EmbeddingNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5)
    losses, actives = [], []
    for step, idx in enumerate(pk_batches(y_train, 240, gen), 1):
        model.train()
        emb = model(x_train[idx])
        loss, active = batch_hard_triplet(emb, y_train[idx], MARGIN)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        actives.append(active.item())
        if step % 60 == 0:
            r1, spread = recall_at_1(model, x_test[seen], y_test[seen])
            print(f"step {step}  loss {np.mean(losses[-60:]):.4f}  active {np.mean(actives[-60:]):.2f}  "
                  f"recall@1 {r1:.4f}  spread {spread:.4f}")

    r1_seen, _ = recall_at_1(model, x_test[seen], y_test[seen])
    r1_new, _ = recall_at_1(model, x_test[~seen], y_test[~seen])
    print(f"recall@1 seen classes {r1_seen:.4f}, unseen classes {r1_new:.4f}")


if __name__ == "__main__":
    main()
