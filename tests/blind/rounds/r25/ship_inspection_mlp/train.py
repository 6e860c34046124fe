"""Risk that an arriving ship will be detained at inspection. Usage: python train.py DIR"""
import csv
import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CATEGORIES = {"ship_type": ["bulk", "tanker", "container", "general", "ro-ro"],
              "flag_list": ["white", "grey", "black"]}
NUMBERS = ["age_years", "gross_tonnage", "months_since_last", "last_deficiencies",
           "class_changes", "draught_m", "berth_hours"]
LOGGED = {"gross_tonnage", "berth_hours"}


def load_calls(path):
    numbers, cats, target = [], [], []
    with path.open(newline="") as f:
        for rec in csv.DictReader(f):
            numbers.append([float(rec[c]) for c in NUMBERS])
            cats.append([CATEGORIES[c].index(rec[c]) for c in CATEGORIES])
            target.append(float(rec["detained"]))
    numbers = torch.tensor(numbers)
    for j, name in enumerate(NUMBERS):
        if name in LOGGED:
            numbers[:, j] = torch.log(numbers[:, j].clamp(min=1.0))
    return numbers, torch.tensor(cats), torch.tensor(target)


class DetentionNet(nn.Module):
    def __init__(self, hidden, dropout, mean, std):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.embeds = nn.ModuleList(nn.Embedding(len(v), 3) for v in CATEGORIES.values())
        width = len(NUMBERS) + 3 * len(CATEGORIES)
        layers = []
        for h in hidden:
            layers += [nn.Linear(width, h), nn.ReLU(), nn.Dropout(dropout)]
            width = h
        self.mlp = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, numbers, cats):
        parts = [(numbers - self.mean) / self.std]
        parts += [emb(cats[:, i]) for i, emb in enumerate(self.embeds)]
        return self.mlp(torch.cat(parts, dim=1)).squeeze(1)


def auc(score, target):
    order = score.argsort()
    rank = torch.empty_like(score)
    rank[order] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    pos = target.sum()
    neg = len(target) - pos
    return ((rank[target == 1].sum() - pos * (pos + 1) / 2) / (pos * neg)).item()


def main():
    folder = Path(sys.argv[1])
    cfg = json.loads((folder / "model.json").read_text())
    torch.manual_seed(cfg["seed"])
    train = load_calls(folder / "port_calls_2022.csv")
    val = load_calls(folder / "port_calls_2023.csv")
    print(f"{len(train[2])} calls in training, {len(val[2])} in validation, "
          f"detained {train[2].mean():.3f} / {val[2].mean():.3f}")

    model = DetentionNet(cfg["hidden"], cfg["dropout"], train[0].mean(0), train[0].std(0))
    loader = DataLoader(TensorDataset(*train), batch_size=cfg["batch"], shuffle=True)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=0.01)
    bce = nn.BCEWithLogitsLoss()

    for epoch in range(cfg["epochs"]):
        model.train()
        losses = []
        for numbers, cats, target in loader:
            opt.zero_grad()
            loss = bce(model(numbers, cats), target)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            score = model(val[0], val[1])
            val_loss = bce(score, val[2]).item()
        if epoch % 3 == 2:
            print(f"epoch {epoch + 1:2d}  loss {sum(losses) / len(losses):.4f}  "
                  f"val loss {val_loss:.4f}  val AUC {auc(score, val[2]):.3f}")

    top = score.topk(len(score) // 10).indices
    print(f"detained among the tenth with the highest risk: {val[2][top].mean():.3f}")
    print(f"val AUC {auc(score, val[2]):.4f}")
    torch.save(model.state_dict(), folder / "detention_net.pt")


if __name__ == "__main__":
    main()
