"""Person embeddings from face descriptors with an additive angular margin softmax."""
import configparser
import os
import sys
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

folder = sys.argv[1]
cfg = configparser.ConfigParser()
cfg.read(os.path.join(folder, "train.cfg"))
N_TRAIN_IDS = 50


class ArcMargin(nn.Module):
    def __init__(self, dim, classes, scale, margin):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, dim))
        nn.init.xavier_uniform_(self.weight)
        self.scale, self.margin = scale, margin

    def forward(self, emb, target):
        cosine = F.linear(emb, F.normalize(self.weight, dim=1)).clamp(-1 + 1e-6, 1 - 1e-6)
        theta = torch.acos(cosine.gather(1, target[:, None]))
        logits = cosine.scatter(1, target[:, None], torch.cos(theta + self.margin))
        return self.scale * logits


class Embedder(nn.Module):
    def __init__(self, n_in, hidden, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


@torch.no_grad()
def retrieval(model, x, y):
    """Recall@1 and pair AUC among people that were not in training."""
    model.eval()
    emb = model(x)
    sim = emb @ emb.t()
    off = ~torch.eye(len(y), dtype=torch.bool)
    same = y[:, None] == y[None, :]
    pos, neg = sim[same & off], sim[~same]
    neg = neg.sort().values
    auc = (torch.searchsorted(neg, pos).double() / len(neg)).mean().item()
    recall = (y[sim.masked_fill(~off, -2).argmax(1)] == y).float().mean().item()
    return recall, auc


def main():
    torch.manual_seed(0)
    faces = np.load(os.path.join(folder, "faces.npz"))
    x = torch.from_numpy(faces["descriptor"].astype(np.float32))
    y = torch.from_numpy(faces["person"].astype(np.int64))
    known = y < N_TRAIN_IDS
    mean, std = x[known].mean(0), x[known].std(0)
    x = (x - mean) / std
    loader = DataLoader(TensorDataset(x[known], y[known]), batch_size=cfg.getint("optim", "batch_size"), shuffle=True, drop_last=True)

    dim = cfg.getint("model", "embedding")
    model = Embedder(x.shape[1], cfg.getint("model", "hidden"), dim)
    head = ArcMargin(dim, N_TRAIN_IDS, cfg.getfloat("loss", "scale"), cfg.getfloat("loss", "margin"))
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=cfg.getfloat("optim", "lr"),
                                  weight_decay=cfg.getfloat("optim", "weight_decay"))
    print("raw descriptors: recall@1 {:.3f} auc {:.3f}".format(*retrieval(nn.Identity(), F.normalize(x[~known], dim=1), y[~known])))
    epochs = cfg.getint("optim", "epochs")
    for epoch in range(1, epochs + 1):
        model.train()
        total = 0.0
        for xb, yb in loader:
            loss = F.cross_entropy(head(model(xb), yb), yb)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        if epoch % 5 == 0:
            recall, auc = retrieval(model, x[~known], y[~known])
            print(f"epoch {epoch}  loss {total / len(loader):.4f}  new people: recall@1 {recall:.3f} auc {auc:.3f}")


if __name__ == "__main__":
    main()
