"""Continue training from FOLDER/last.pt on the data of the new campaign."""
import sys
from pathlib import Path
import torch
from torch import nn

FOLDER = Path(__file__).parent / sys.argv[1]
EPOCHS, BATCH, LR = 10, 32, 1e-3


def campaign(n, seed, gain):
    g = torch.Generator().manual_seed(seed)
    u = torch.rand(n, 6, generator=g) * 2 - 1
    thrust = gain * torch.sin(2 * u[:, 0]) + u[:, 1] * u[:, 2] - (gain - 1) * u[:, 3] ** 2
    return u, (thrust + 0.03 * torch.randn(n, generator=g))[:, None]


def build():
    model = nn.Sequential(nn.Linear(6, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
    return model, torch.optim.Adam(model.parameters(), lr=LR)


def load(model, optimizer):
    ckpt = torch.load(FOLDER / "last.pt")
    model.load_state_dict(ckpt["model"])
    optimizer.load_state_dict(ckpt["optimizer"])
    print(f"resumed from step {ckpt['step']}, recorded val mse {ckpt['val']:.4f}")
    return ckpt["step"]


@torch.no_grad()
def validate(model, x, y):
    model.eval()
    return nn.functional.mse_loss(model(x), y).item()


def train_epoch(model, optimizer, x, y):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(x)).split(BATCH):
        loss = nn.functional.mse_loss(model(x[idx]), y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    return total / len(x)


def main():
    torch.manual_seed(9)
    model, optimizer = build()
    step = load(model, optimizer)
    x, y = campaign(800, 21, gain=1.6)
    val = campaign(300, 22, gain=1.6)
    print(f"before: val mse {validate(model, *val):.4f}")
    for epoch in range(EPOCHS):
        loss = train_epoch(model, optimizer, x, y)
        step += -(-len(x) // BATCH)
        print(f"epoch {epoch} step {step} train mse {loss:.5f} val mse {validate(model, *val):.5f}")


if __name__ == "__main__":
    main()
