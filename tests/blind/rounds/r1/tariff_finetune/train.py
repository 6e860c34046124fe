"""Continue last year's price-response model on this year's data (FOLDER/last_year.pt)."""
import json
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

FOLDER = Path(sys.argv[1])


def offers(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 8))
    y = 1.0 * x[:, 0] - 1.4 * x[:, 1] + 0.9 * np.maximum(x[:, 2], 0) + 0.6 * x[:, 3] * x[:, 4] + 0.8
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y + 0.2 * rng.normal(size=n), dtype=torch.float32)


def build():
    return nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))


def main():
    cfg = json.loads((FOLDER / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    x_train, y_train = offers(2000, 100)
    x_val, y_val = offers(800, 101)
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    checkpoint = torch.load(FOLDER / "last_year.pt", weights_only=True)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    print(f"resumed model of season {checkpoint['season']}")

    @torch.no_grad()
    def validate():
        model.eval()
        return (model(x_val).squeeze(1) - y_val).abs().mean().item()

    print(f"before: val MAE {validate():.3f}")
    for epoch in range(cfg["epochs"]):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x_train)).split(cfg["batch_size"]):
            loss = F.mse_loss(model(x_train[idx]).squeeze(1), y_train[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        if epoch % 3 == 2:
            print(f"epoch {epoch:2d} train mse {total / len(x_train):.4f} val MAE {validate():.3f}")


if __name__ == "__main__":
    main()
