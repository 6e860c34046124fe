"""Expected goals for a small league: frozen encoder from the big leagues, new head on our shots."""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

FOLDER = Path(sys.argv[1])
EPOCHS, BATCH, LR = 25, 64, 1e-2
torch.manual_seed(12)


class ShotModel(nn.Module):
    def __init__(self, n_features=6, code=8):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(n_features, 48), nn.ReLU(),
            nn.Linear(48, 48), nn.ReLU(),
            nn.Linear(48, code), nn.Tanh())
        self.head = nn.Linear(code, 1)

    def forward(self, x):
        return self.head(self.encoder(x)).squeeze(1)

    def load_encoder(self, path):
        state = torch.load(path, weights_only=True)
        self.encoder.load_state_dict(state, strict=False)
        for p in self.encoder.parameters():
            p.requires_grad_(False)
        print(f"encoder file {path.name}: {len(state)} tensors, {sum(t.numel() for t in state.values())} weights")


def load_shots():
    z = np.load(FOLDER / "shots.npz")
    scale = lambda a: torch.from_numpy((a - z["mean"]) / z["std"])
    return (scale(z["x"]), torch.from_numpy(z["goal"])), (scale(z["x_test"]), torch.from_numpy(z["goal_test"]))


def brier_and_loss(model, x, goal):
    model.eval()
    with torch.no_grad():
        logit = model(x)
        p = torch.sigmoid(logit)
        return (p - goal).pow(2).mean().item(), F.binary_cross_entropy_with_logits(logit, goal).item(), p.sum().item()


(x_train, g_train), (x_test, g_test) = load_shots()
model = ShotModel()
model.load_encoder(FOLDER / "encoder.pt")
optimizer = torch.optim.Adam(model.head.parameters(), lr=LR)
for epoch in range(1, EPOCHS + 1):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(g_train)).split(BATCH):
        loss = F.binary_cross_entropy_with_logits(model(x_train[idx]), g_train[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    if epoch % 5 == 0:
        brier, ll, xg = brier_and_loss(model, x_test, g_test)
        print(f"epoch {epoch:2d}  train {total / len(g_train):.4f}  test log-loss {ll:.4f}  brier {brier:.4f}  "
              f"xG {xg:.1f} / goals {g_test.sum():.0f}")
rate = g_train.mean()
print(f"constant-rate log-loss on test: {F.binary_cross_entropy(rate.expand_as(g_test), g_test):.4f}")
