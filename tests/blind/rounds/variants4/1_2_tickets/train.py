import csv
import json
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(3)


def read_rows(path):
    with open(path, newline="") as fh:
        return list(csv.DictReader(fh))


def hours(stamp):
    day, clock = stamp.split(" ")
    h, m = clock.split(":")
    return int(day) * 24 + int(h) + int(m) / 60


def encode(rows, cfg):
    keywords = {w: i for i, w in enumerate(cfg["keywords"])}
    channels = {c: i for i, c in enumerate(cfg["channels"])}
    queues = {q: i for i, q in enumerate(cfg["queues"])}
    bag = torch.zeros(len(rows), len(keywords))
    chan = torch.zeros(len(rows), len(channels))
    extra = torch.zeros(len(rows), 3)
    label = torch.zeros(len(rows), dtype=torch.long)
    for i, row in enumerate(rows):
        for word in row["text"].split():
            if word in keywords:
                bag[i, keywords[word]] += 1
        chan[i, channels[row["channel"]]] = 1
        extra[i, 0] = float(row["ticket_no"])
        extra[i, 1] = hours(row["opened"])
        extra[i, 2] = float(row["customer_years"])
        label[i] = queues[row["queue"]]
    return bag, chan, extra, label


class Router(nn.Module):
    def __init__(self, n_words, n_chan, n_queues):
        super().__init__()
        self.words = nn.Linear(n_words, 32)
        self.side = nn.Sequential(nn.Linear(n_chan + 3, 64), nn.ReLU(), nn.Linear(64, 32))
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, n_queues))

    def forward(self, bag, chan, extra):
        return self.head(torch.cat([self.words(bag), self.side(torch.cat([chan, extra], 1))], 1))


def accuracy(model, data):
    model.eval()
    with torch.no_grad():
        pred = model(*data[:3]).argmax(1)
    return (pred == data[3]).float().mean().item()


def main(folder):
    with open(os.path.join(folder, "router.json")) as fh:
        cfg = json.load(fh)
    train = encode(read_rows(os.path.join(folder, cfg["train_file"])), cfg)
    valid = encode(read_rows(os.path.join(folder, cfg["valid_file"])), cfg)
    mu, sd = train[2].mean(0), train[2].std(0)
    train = (train[0], train[1], (train[2] - mu) / sd, train[3])
    valid = (valid[0], valid[1], (valid[2] - mu) / sd, valid[3])

    model = Router(len(cfg["keywords"]), len(cfg["channels"]), len(cfg["queues"]))
    optim = torch.optim.Adam(model.parameters(), lr=cfg["lr"], weight_decay=1e-4)
    n, size = len(train[3]), cfg["batch_size"]
    for epoch in range(1, cfg["epochs"] + 1):
        model.train()
        order = torch.randperm(n)
        total = 0.0
        for start in range(0, n, size):
            pick = order[start:start + size]
            loss = F.cross_entropy(model(*(t[pick] for t in train[:3])), train[3][pick])
            optim.zero_grad()
            loss.backward()
            optim.step()
            total += loss.item() * len(pick)
        if epoch % 5 == 0:
            print("epoch", epoch, "train loss", round(total / n, 4), "valid acc", round(accuracy(model, valid), 4))
    print("routing accuracy on validation:", round(accuracy(model, valid), 4))


if __name__ == "__main__":
    main(sys.argv[1])
