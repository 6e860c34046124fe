import sys
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Beats(Dataset):
    """Single-lead beats with a rhythm label."""

    def __init__(self, path):
        z = np.load(path)
        self.wave = torch.from_numpy(z["wave"]).float()
        self.meta = torch.from_numpy(np.stack([z["age"] / 100.0, z["rr"]], 1)).float()
        self.label = torch.from_numpy(z["label"]).long()
        self.patient = z["patient"]

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        w = self.wave[i]
        w = (w - w.mean()) / (w.std() + 1e-6)
        return {"wave": w[None], "meta": self.meta[i], "label": self.label[i]}


class BeatNet(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 16, 7, padding=3), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(16, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(2),
        )
        self.fc = nn.Sequential(nn.Linear(32 * 24 + 2, 64), nn.ReLU(), nn.Linear(64, classes))

    def forward(self, batch):
        h = self.conv(batch["wave"]).flatten(1)
        return self.fc(torch.cat([h, batch["meta"]], dim=1))


def evaluate(model, loader):
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in loader:
            hits += (model(batch).argmax(1) == batch["label"]).sum().item()
            total += len(batch["label"])
    return hits / total


def run(folder, epochs=5):
    torch.manual_seed(0)
    train, valid = Beats(f"{folder}/train.npz"), Beats(f"{folder}/valid.npz")
    print("beats", len(train), len(valid), "patients", len(set(train.patient)), len(set(valid.patient)),
          "shared", len(set(train.patient) & set(valid.patient)))
    tl = DataLoader(train, batch_size=64, shuffle=True)
    vl = DataLoader(valid, batch_size=256)
    model = BeatNet()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    ce = nn.CrossEntropyLoss()
    for ep in range(epochs):
        model.train()
        seen = 0.0
        for batch in tl:
            opt.zero_grad()
            loss = ce(model(batch), batch["label"])
            loss.backward()
            opt.step()
            seen += loss.item()
        print(f"[{ep}] loss {seen / len(tl):.3f} valid {evaluate(model, vl):.3f}")
    return evaluate(model, vl)


if __name__ == "__main__":
    print(f"valid accuracy: {run(sys.argv[1]):.4f}")
