"""Tag songs with moods (several per song). Settings come from FOLDER/env.json, as set by the job template."""
import json
import os
import sys
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

MOODS = ["calm", "happy", "dark", "party", "romantic"]

with open(os.path.join(sys.argv[1], "env.json")) as f:
    os.environ.update(json.load(f))
LEARNING_RATE = float(os.environ["LEARNING_RATE"])
MAX_GRAD_NORM = float(os.environ["MAX_GRAD_NORM"])
EPOCHS, SEED = int(os.environ["EPOCHS"]), int(os.environ["SEED"])


def songs(n, rng, loadings):
    audio = rng.normal(0, 1, (n, 20))
    tags = audio @ loadings + rng.normal(0, 0.6, (n, len(MOODS))) > 0.4
    return torch.tensor(audio, dtype=torch.float32), torch.tensor(tags, dtype=torch.float32)


class MoodNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, len(MOODS)))

    def forward(self, audio):
        return self.net(audio)


def micro_f1(model, x, y):
    model.eval()
    with torch.no_grad():
        pred = (torch.sigmoid(model(x)) > 0.5).float()
    return 2 * (pred * y).sum().item() / (pred.sum() + y.sum()).item()


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    loadings = rng.normal(0, 0.4, (20, len(MOODS)))
    x_train, y_train = songs(1500, rng, loadings)
    x_valid, y_valid = songs(500, rng, loadings)
    loader = DataLoader(TensorDataset(x_train, y_train), batch_size=50, shuffle=True)
    model = MoodNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.4f} valid micro f1 {micro_f1(model, x_valid, y_valid):.3f}")
    print(f"valid micro f1 {micro_f1(model, x_valid, y_valid):.3f}")


if __name__ == "__main__":
    main()
