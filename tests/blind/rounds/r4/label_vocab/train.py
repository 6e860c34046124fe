"""Species tags from site descriptors. Each split has a .jsonl with tag ids and a label list."""
import json
import sys
from pathlib import Path
import torch
from torch import nn

ROOT = Path(__file__).parent / sys.argv[1]


def read_split(name, species):
    names = (ROOT / f"{name}_labels.txt").read_text().split()
    xs, ys = [], []
    for line in open(ROOT / f"{name}.jsonl"):
        rec = json.loads(line)
        target = torch.zeros(len(species))
        for tag in rec["tags"]:
            target[species.index(names[tag])] = 1
        xs.append(rec["site"])
        ys.append(target)
    return torch.tensor(xs), torch.stack(ys)


class Tagger(nn.Module):
    def __init__(self, d, k):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 48), nn.ReLU(), nn.Linear(48, k))

    def forward(self, x):
        return self.net(x)


def micro_f1(logits, y):
    pred = (logits > 0).float()
    tp = (pred * y).sum()
    return (2 * tp / (pred.sum() + y.sum()).clamp(min=1)).item()


def main():
    torch.manual_seed(0)
    species = sorted((ROOT / "train_labels.txt").read_text().split())
    x, y = read_split("train", species)
    xv, yv = read_split("valid", species)
    mean, std = x.mean(0), x.std(0)
    x, xv = (x - mean) / std, (xv - mean) / std
    print(f"{len(x)} train sites, {len(xv)} valid sites, {len(species)} species, {y.sum(1).mean():.2f} tags per site")
    model = Tagger(x.size(1), len(species))
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for epoch in range(12):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(40):
            out = model(x[idx])
            loss = nn.functional.binary_cross_entropy_with_logits(out, y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            print(f"epoch {epoch:2d} loss {total / len(x):.4f} train F1 {micro_f1(model(x), y):.3f} valid F1 {micro_f1(model(xv), yv):.3f}")


if __name__ == "__main__":
    main()
