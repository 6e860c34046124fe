"""Spoken digits: continue from last.pt on the clips of a new accent."""
import sys
from dataclasses import dataclass
from pathlib import Path
import torch
from torch import nn


@dataclass
class State:
    model: nn.Module
    optimizer: torch.optim.Optimizer
    epoch: int = 0

    @classmethod
    def fresh(cls, lr=3e-3):
        model = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 10))
        return cls(model, torch.optim.AdamW(model.parameters(), lr=lr))

    def resume(self, path):
        saved = torch.load(path)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.epoch = saved["epoch"]
        print(f"resumed from {path.name} at epoch {self.epoch}")
        return self


def train_one_epoch(state, clips, batch_size=40):
    x, y = clips
    state.model.train()
    total = 0.0
    for idx in torch.randperm(len(x)).split(batch_size):
        state.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(state.model(x[idx]), y[idx])
        loss.backward()
        state.optimizer.step()
        total += loss.item() * len(idx)
    state.epoch += 1
    return total / len(x)


def word_error(state, clips):
    x, y = clips
    state.model.eval()
    with torch.no_grad():
        return (state.model(x).argmax(1) != y).float().mean().item()


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(12)
    state = State.fresh()
    checkpoint = folder / "last.pt"
    if checkpoint.exists():
        state.resume(checkpoint)
    train = torch.load(folder / "clips_train.pt")
    test = torch.load(folder / "clips_test.pt")
    for _ in range(10):
        loss = train_one_epoch(state, train)
        if state.epoch % 3 == 0:
            print(f"epoch {state.epoch:3d}  loss {loss:.4f}")
    print(f"word error on the new accent {word_error(state, test):.4f}")


if __name__ == "__main__":
    main()
