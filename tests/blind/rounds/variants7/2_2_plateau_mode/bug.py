import copy
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

CONFIG = {
    "seed": 8,
    "bands": 40,
    "crops": ["wheat", "maize", "rapeseed", "barley", "beet", "potato"],
    "optim": {"lr": 4e-4, "weight_decay": 1e-4},
    "batch": 64,
    "max_epochs": 20,
    "keep_best": {"monitor": "val_f1", "patience": 6},
}


def spectra(n, cfg):
    g = torch.Generator().manual_seed(cfg["seed"])
    w = torch.linspace(0, 1, cfg["bands"])
    y = torch.randint(0, len(cfg["crops"]), (n,), generator=g)
    red_edge = 0.52 + 0.03 * y[:, None] + 0.02 * torch.randn(n, 1, generator=g)
    height = 0.45 + 0.06 * (y % 3)[:, None] + 0.05 * torch.randn(n, 1, generator=g)
    green = 0.08 + 0.015 * (y // 2)[:, None] + 0.01 * torch.randn(n, 1, generator=g)
    soil = 0.1 * torch.rand(n, 1, generator=g)
    x = height * torch.sigmoid((w - red_edge) * 30) + green * torch.exp(-((w - 0.3) / 0.05) ** 2) + soil * w
    return x + 0.01 * torch.randn(n, cfg["bands"], generator=g), y


class SpectralNet(nn.Module):
    def __init__(self, bands, n_classes):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2),
                                  nn.Conv1d(16, 32, 5, padding=2), nn.ReLU())
        self.fc = nn.Linear(32 * (bands // 2), n_classes)

    def forward(self, x):
        return self.fc(self.conv(x.unsqueeze(1)).flatten(1))


class KeepBest:
    def __init__(self, monitor, patience, mode="min"):
        self.monitor, self.patience = monitor, patience
        self.sign = 1.0 if mode == "min" else -1.0
        self.best, self.wait, self.weights = None, 0, None

    def __call__(self, logs, model):
        score = self.sign * logs[self.monitor]
        if self.best is None or score < self.best:
            self.best, self.wait = score, 0
            self.weights = copy.deepcopy(model.state_dict())
        else:
            self.wait += 1
        return self.wait >= self.patience


def macro_f1(pred, true, k):
    scores = []
    for c in range(k):
        tp = ((pred == c) & (true == c)).sum().item()
        fp = ((pred == c) & (true != c)).sum().item()
        fn = ((pred != c) & (true == c)).sum().item()
        scores.append(2 * tp / max(2 * tp + fp + fn, 1))
    return sum(scores) / k


@torch.no_grad()
def score(model, loader, k):
    model.eval()
    out = [(model(x).argmax(1), y) for x, y in loader]
    return macro_f1(torch.cat([p for p, _ in out]), torch.cat([t for _, t in out]), k)


def main(cfg):
    torch.manual_seed(cfg["seed"])
    x, y = spectra(3000, cfg)
    train, val, test = random_split(TensorDataset(x, y), [1800, 500, 700])
    mean, std = x[train.indices].mean(0), x[train.indices].std(0)
    x.sub_(mean).div_(std)
    k = len(cfg["crops"])
    loaders = [DataLoader(d, batch_size=cfg["batch"], shuffle=(d is train)) for d in (train, val, test)]
    model = SpectralNet(cfg["bands"], k)
    opt = torch.optim.AdamW(model.parameters(), **cfg["optim"])
    keep = KeepBest(**cfg["keep_best"])
    for epoch in range(cfg["max_epochs"]):
        model.train()
        losses = []
        for xb, yb in loaders[0]:
            opt.zero_grad()
            loss = F.cross_entropy(model(xb), yb)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        logs = {"loss": sum(losses) / len(losses), "val_f1": score(model, loaders[1], k)}
        print(epoch, {m: round(v, 4) for m, v in logs.items()})
        if keep(logs, model):
            break
    model.load_state_dict(keep.weights)
    print(f"test_f1={score(model, loaders[2], k):.4f}")


if __name__ == "__main__":
    main(CONFIG)
