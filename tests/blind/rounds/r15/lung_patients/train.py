import argparse
import json
from dataclasses import dataclass
from pathlib import Path
import torch
from torch import nn


@dataclass
class Config:
    hidden: int = 64
    lr: float = 2e-3
    epochs: int = 30
    batch_size: int = 32
    seed: int = 1


class ScanSet(torch.utils.data.Dataset):
    def __init__(self, path: Path):
        records = json.loads(path.read_text())
        self.x = torch.tensor([r["x"] for r in records])
        self.y = torch.tensor([r["sick"] for r in records])
        self.patients = [r["patient"] for r in records]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


class ScanClassifier(nn.Module):
    def __init__(self, cfg: Config, n_features: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_features, cfg.hidden), nn.ReLU(),
            nn.Linear(cfg.hidden, cfg.hidden), nn.ReLU(),
            nn.Linear(cfg.hidden, 2))

    def forward(self, x):
        return self.layers(x)


@torch.no_grad()
def accuracy(model, ds):
    model.eval()
    return (model(ds.x).argmax(1) == ds.y).float().mean().item()


def fit(cfg, train, val):
    torch.manual_seed(cfg.seed)
    model = ScanClassifier(cfg, train.x.shape[1])
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-2)
    loader = torch.utils.data.DataLoader(train, batch_size=cfg.batch_size, shuffle=True)
    best, best_state = 0.0, None
    for epoch in range(cfg.epochs):
        model.train()
        for x, y in loader:
            opt.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(x), y).backward()
            opt.step()
        score = accuracy(model, val)
        if score > best:
            best = score
            best_state = {k: v.clone() for k, v in model.state_dict().items()}
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}  val {score:.3f}")
    model.load_state_dict(best_state)
    return model, best


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    train, val = ScanSet(folder / "train.json"), ScanSet(folder / "val.json")
    model, reported = fit(Config(), train, val)
    new = accuracy(model, ScanSet(folder / "prospective.json"))
    print(f"reported validation accuracy {reported:.3f}")
    print(f"prospective study accuracy {new:.3f}, optimism {reported - new:.3f}")
