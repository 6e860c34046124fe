import configparser
import os
import sys

import numpy as np
import torch
import torch.nn as nn

COLUMNS = ["log_income", "log_amount", "term", "rate", "age", "late_payments", "utilisation", "home_owner"]


def load_settings(folder):
    parser = configparser.ConfigParser()
    parser.read(os.path.join(folder, "settings.ini"))
    return parser


def load_table(path, share, seed):
    with np.load(path) as z:
        x = np.stack([z[c] for c in COLUMNS], axis=1)
        y = z["default"].astype(np.float32)
    order = np.random.default_rng(seed).permutation(len(x))
    cut = int(len(x) * (1 - share))
    tr, va = order[:cut], order[cut:]
    mean, std = x[tr].mean(0), x[tr].std(0)
    x = (x - mean) / std
    as_tensor = torch.from_numpy
    return (as_tensor(x[tr]), as_tensor(y[tr])), (as_tensor(x[va]), as_tensor(y[va]))


def make_model(n_in, section):
    hidden, dropout = section.getint("hidden"), section.getfloat("dropout")
    layers = []
    for _ in range(section.getint("layers")):
        layers += [nn.Linear(n_in, hidden), nn.ReLU(), nn.Dropout(dropout)]
        n_in = hidden
    return nn.Sequential(*layers, nn.Linear(n_in, 1), nn.Flatten(0))


def make_optimizer(model, section):
    kinds = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    return kinds[section["name"]](model.parameters(), lr=section.getfloat("lr"),
                                  weight_decay=section.getfloat("weight_decay"))


def roc_auc(score, label):
    order = torch.argsort(score)
    ranks = torch.empty_like(score)
    ranks[order] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    # ties share their mean rank
    uniq, inverse = torch.unique(score, return_inverse=True)
    sums = torch.zeros(len(uniq)).index_add_(0, inverse, ranks)
    counts = torch.zeros(len(uniq)).index_add_(0, inverse, torch.ones_like(ranks))
    ranks = (sums / counts)[inverse]
    pos = label.sum()
    neg = len(label) - pos
    return ((ranks[label == 1].sum() - pos * (pos + 1) / 2) / (pos * neg)).item()


def main(folder):
    cfg = load_settings(folder)
    training = cfg["training"]
    seed = training.getint("seed")
    torch.manual_seed(seed)
    (x, y), (xv, yv) = load_table(os.path.join(folder, cfg["data"]["table"]),
                                  cfg["data"].getfloat("validation_share"), seed)
    model = make_model(x.shape[1], cfg["model"])
    optimizer = make_optimizer(model, cfg["optimizer"])
    epochs, batch = training.getint("epochs"), training.getint("batch_size")
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    criterion = nn.BCEWithLogitsLoss()
    print(f"{len(x)} loans, default rate {y.mean():.3f}")

    for epoch in range(epochs):
        model.train()
        losses = []
        for idx in torch.randperm(len(x)).split(batch):
            optimizer.zero_grad()
            loss = criterion(model(x[idx]), y[idx])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
        model.eval()
        with torch.no_grad():
            logit = model(xv)
        val_loss = criterion(logit, yv).item()
        print(f"epoch {epoch + 1:2d}  train {np.mean(losses):.4f}  val {val_loss:.4f}  val AUC {roc_auc(logit, yv):.4f}")
    print(f"final val log loss {val_loss:.4f} AUC {roc_auc(logit, yv):.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
