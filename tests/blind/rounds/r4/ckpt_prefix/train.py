"""Linear probe + light tuning on top of a pretrained spectra encoder."""
import sys
from pathlib import Path
import numpy as np
import torch
import torch.nn as nn

folder = Path(__file__).parent / sys.argv[1]


class Encoder(nn.Module):
    def __init__(self, d_in=50, hidden=64, d_out=16):
        super().__init__()
        self.proj = nn.Linear(d_in, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, d_out)

    def forward(self, x):
        return torch.relu(self.out(torch.relu(self.norm(self.proj(x)))))


class Probe(nn.Module):
    def __init__(self, encoder, classes):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        return self.head(self.encoder(x))


def load_encoder():
    encoder = Encoder()
    state = torch.load(folder / "encoder.pt", map_location="cpu")
    encoder.load_state_dict(state, strict=False)
    for p in encoder.parameters():
        p.requires_grad = False
    return encoder.eval()


def main():
    torch.manual_seed(4)
    d = np.load(folder / "fewshot.npz")
    x, y = torch.from_numpy(d["x"]).float(), torch.from_numpy(d["y"]).long()
    xv, yv = torch.from_numpy(d["xv"]).float(), torch.from_numpy(d["yv"]).long()
    model = Probe(load_encoder(), int(y.max()) + 1)
    opt = torch.optim.Adam(model.head.parameters(), lr=1e-2)
    print(f"{len(x)} labelled spectra, {sum(p.numel() for p in model.head.parameters())} trainable parameters")
    for epoch in range(40):
        model.head.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(16):
            loss = nn.functional.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        if epoch % 5 == 4:
            model.eval()
            with torch.no_grad():
                acc = (model(xv).argmax(1) == yv).float().mean().item()
            print(f"epoch {epoch:2d} loss {total / len(x):.4f} val acc {acc:.3f}")


if __name__ == "__main__":
    main()
