"""House energy rating from building data; micro-batches of 8, accumulated to 128."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CONFIG = dict(micro_batch=8, accumulate=16, lr=0.15, momentum=0.9, epochs=10, seed=23)


def buildings(n, rng):
    area, year, glass, insul = rng.uniform(40, 300, n), rng.integers(1900, 2020, n), rng.uniform(0.1, 0.6, n), rng.uniform(0, 1, n)
    heat = rng.integers(0, 3, n)
    score = 0.02 * (year - 1960) + 2.2 * insul - 3 * glass + 0.8 * (heat == 2) - 0.004 * (area - 170) + rng.normal(0, 0.4, n)
    label = np.digitize(score, [-1.2, 0.3, 1.6])
    x = np.stack([(area - 170) / 75, (year - 1960) / 35, (glass - 0.35) / 0.145, (insul - 0.5) / 0.29, heat == 1, heat == 2], 1)
    return torch.tensor(x, dtype=torch.float32), torch.from_numpy(label)


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        logits = model(x)
    return nn.functional.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def train(cfg):
    torch.manual_seed(cfg["seed"])
    rng = np.random.default_rng(cfg["seed"])
    x_train, y_train = buildings(2560, rng)
    x_valid, y_valid = buildings(800, rng)
    loader = DataLoader(TensorDataset(x_train, y_train), batch_size=cfg["micro_batch"], shuffle=True)
    model = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg["lr"], momentum=cfg["momentum"])
    for epoch in range(cfg["epochs"]):
        model.train()
        total = 0.0
        optimizer.zero_grad()
        for i, (x, y) in enumerate(loader, 1):
            loss = nn.functional.cross_entropy(model(x), y)
            (loss / cfg["accumulate"]).backward()
            total += loss.item()
            if i % cfg["accumulate"] == 0:
                optimizer.step()
                optimizer.zero_grad()
        valid_loss, valid_acc = evaluate(model, x_valid, y_valid)
        print(f"epoch {epoch} train {total / len(loader):.4f} valid {valid_loss:.4f} acc {valid_acc:.3f}")
    return valid_loss, valid_acc


if __name__ == "__main__":
    loss, acc = train(CONFIG)
    print(f"final valid loss {loss:.4f} accuracy {acc:.3f}")
