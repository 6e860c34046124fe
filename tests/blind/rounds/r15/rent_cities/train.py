"""Monthly rent from city, size and age; last year's offers for training, this year's for testing."""
import argparse
import json
from collections import Counter
from pathlib import Path
import torch
from torch import nn


class CityIndex:
    """rare or unknown cities share slot 0"""

    def __init__(self, names, min_count=5):
        counts = Counter(names)
        self.slots = {c: i for i, c in enumerate(sorted(c for c, k in counts.items() if k >= min_count), start=1)}

    def __len__(self):
        return len(self.slots) + 1

    def __call__(self, name):
        return self.slots.get(name, 0)


class RentModel(nn.Module):
    def __init__(self, n_cities, dim=6):
        super().__init__()
        self.city = nn.Embedding(n_cities, dim)
        self.mlp = nn.Sequential(nn.Linear(dim + 2, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, city, numbers):
        return self.mlp(torch.cat([self.city(city), numbers], dim=1)).squeeze(1)


def read(path):
    return json.loads(Path(path).read_text(encoding="utf-8"))


def tensors(rows, index):
    city = torch.tensor([index(r["city"]) for r in rows])
    numbers = torch.tensor([[r["m2"] / 100, r["age"] / 50] for r in rows])
    rent = torch.tensor([r["rent"] / 1000 for r in rows])
    return city, numbers, rent


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("data")
    ns = ap.parse_args()
    torch.manual_seed(10)
    past, now = read(f"{ns.data}/flats_2023.json"), read(f"{ns.data}/flats_2024.json")
    index = CityIndex([r["city"] for r in past])
    city, numbers, rent = tensors(past, index)
    model = RentModel(len(index))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(25):
        err = 0.0
        for pick in torch.randperm(len(rent)).split(50):
            loss = nn.functional.l1_loss(model(city[pick], numbers[pick]), rent[pick])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            err += loss.item() * len(pick)
        if epoch % 6 == 0:
            print(f"epoch {epoch}: training error {1000 * err / len(rent):.0f} EUR")
    model.eval()
    city, numbers, rent = tensors(now, index)
    with torch.no_grad():
        mae = (model(city, numbers) - rent).abs().mean().item() * 1000
    print(f"{len(index) - 1} cities known")
    print(f"mean absolute error this year: {mae:.1f} EUR")


if __name__ == "__main__":
    main()
