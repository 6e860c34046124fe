"""Pretrains a leaf encoder on many species and stores it next to a tiny new task."""
import pathlib

import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent
torch.manual_seed(44)
MIX = torch.randn(6, 40)


def leaves(centres, per):
    y = torch.arange(len(centres)).repeat_interleave(per)
    z = centres[y] + 0.35 * torch.randn(len(y), 6)
    return torch.sin(z @ MIX * 0.8) + 0.7 * torch.randn(len(y), 40), y


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(40, 128)
        self.norm = nn.LayerNorm(128)
        self.out = nn.Linear(128, 12)

    def forward(self, x):
        return self.out(F.relu(self.norm(self.stem(x))))


def pretrain():
    enc, head = Encoder(), nn.Linear(12, 40)
    x, y = leaves(torch.randn(40, 6), 120)
    opt = torch.optim.Adam([*enc.parameters(), *head.parameters()], lr=3e-3)
    for _ in range(8):
        for idx in torch.randperm(len(x)).split(64):
            opt.zero_grad()
            F.cross_entropy(head(enc(x[idx])), y[idx]).backward()
            opt.step()
    return enc.state_dict()


state = pretrain()
new = torch.randn(8, 6)
train, test = leaves(new, 5), leaves(new, 100)
for name in ("bug", "ok"):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    prefix = "module." if name == "bug" else ""
    torch.save({"epoch": 8, "state_dict": {prefix + k: v for k, v in state.items()}}, folder / "encoder.pt")
    torch.save({"x": train[0], "y": train[1]}, folder / "train.pt")
    torch.save({"x": test[0], "y": test[1]}, folder / "test.pt")
