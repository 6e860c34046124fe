import argparse

import numpy as np
import torch
import torch.nn as nn


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--speakers", type=int, default=60)
    p.add_argument("--segments", type=int, default=40)
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=33)
    return p.parse_args()


def recordings(args):
    rng = np.random.default_rng(args.seed)
    effect = np.random.default_rng(1).normal(0, 1, 32)
    effect *= 3.4 / np.linalg.norm(effect)
    feats, labels, speakers = [], [], []
    for s in range(args.speakers):
        y = s % 2
        voice = rng.normal(0, 1.0, 32)
        centre = voice + (y - 0.5) * effect
        feats.append(centre + rng.normal(0, 1.0, (args.segments, 32)))
        labels += [y] * args.segments
        speakers += [s] * args.segments
    feats = torch.tensor(np.concatenate(feats), dtype=torch.float32)
    return feats, torch.tensor(labels), torch.tensor(speakers)


def split(speakers, args):
    gen = torch.Generator().manual_seed(args.seed)
    order = torch.randperm(len(speakers), generator=gen)
    cut = int(0.75 * len(order))
    return order[:cut], order[cut:]


def main():
    args = parse()
    torch.manual_seed(args.seed)
    feats, labels, speakers = recordings(args)
    train_idx, val_idx = split(speakers, args)
    mean, std = feats[train_idx].mean(0), feats[train_idx].std(0)
    feats = (feats - mean) / std
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 2))
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for batch in train_idx[torch.randperm(len(train_idx))].split(50):
            loss = loss_fn(model(feats[batch]), labels[batch])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(batch)
        model.eval()
        with torch.no_grad():
            acc = (model(feats[val_idx]).argmax(1) == labels[val_idx]).float().mean().item()
        print(f"epoch {epoch} loss {total / len(train_idx):.3f} validation accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
