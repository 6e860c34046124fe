import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset


def read_list(path):
    return [line.strip() for line in path.read_text().splitlines() if line.strip()]


def load_part(folder, part):
    """The lists name blocks of recordings and blocks of wear values, line by line."""
    blocks = []
    for wave_file, wear_file in zip(read_list(folder / f"{part}_waves.lst"), read_list(folder / f"{part}_wear.lst"), strict=True):
        waves = np.load(folder / "waves" / wave_file)
        wear = np.load(folder / "wear" / wear_file)
        assert len(waves) == len(wear)
        blocks.append((waves, wear))
    return blocks


def spectrum(waves):
    power = np.abs(np.fft.rfft(waves * np.hanning(waves.shape[1]), axis=1)) ** 2
    return np.log(power + 1e-6).astype(np.float32)


class WearNet(nn.Module):
    def __init__(self, bins, hidden, dropout):
        super().__init__()
        self.a = nn.Linear(bins, hidden)
        self.bn = nn.BatchNorm1d(hidden)
        self.b = nn.Linear(hidden, hidden)
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        h = torch.relu(self.bn(self.a(x)))
        return self.out(self.drop(torch.relu(self.b(h)))).squeeze(1)


def r2(net, loader):
    net.eval()
    with torch.no_grad():
        pairs = [(net(x), y) for x, y in loader]
    p, y = (torch.cat(c) for c in zip(*pairs))
    return 1 - ((p - y) ** 2).sum().item() / ((y - y.mean()) ** 2).sum().item()


def main(folder):
    hp = json.loads((folder / "hp.json").read_text())
    torch.manual_seed(hp["seed"])
    raw = {p: load_part(folder, p) for p in ("train", "valid", "test")}
    feats = {p: [(spectrum(w), y.astype(np.float32)) for w, y in blocks] for p, blocks in raw.items()}
    ref = np.concatenate([f for f, _ in feats["train"]])
    ref_y = np.concatenate([y for _, y in feats["train"]])
    mean, std, ym, ys = ref.mean(0), ref.std(0), ref_y.mean(), ref_y.std()

    def loader(part):
        sets = [TensorDataset(torch.from_numpy((f - mean) / std), torch.from_numpy((y - ym) / ys)) for f, y in feats[part]]
        return DataLoader(ConcatDataset(sets), batch_size=hp["batch_size"], shuffle=part == "train", drop_last=part == "train")

    loaders = {p: loader(p) for p in feats}
    net = WearNet(ref.shape[1], hp["hidden"], hp["dropout"])
    opt = torch.optim.AdamW(net.parameters(), lr=hp["lr"], weight_decay=0.02)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, hp["epochs"])
    for epoch in range(hp["epochs"]):
        net.train()
        losses = []
        for x, y in loaders["train"]:
            loss = nn.functional.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step()
        if (epoch + 1) % 5 == 0:
            print(f"epoch {epoch + 1} loss {np.mean(losses):.4f} valid r2 {r2(net, loaders['valid']):.4f}")
    print(f"test r2 {r2(net, loaders['test']):.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
