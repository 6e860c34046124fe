import json
import sys
from pathlib import Path
import torch
from torch import nn

CFG = json.loads((Path(__file__).parent / sys.argv[1] / "model.json").read_text())


def photometry(n, seed):
    """Magnitudes in 5 bands, colours and concentration -> spiral / elliptical / irregular."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 3, (n,), generator=g)
    mags = 19 + 0.8 * torch.randn(n, 1, generator=g) + torch.tensor([[0.9, 0.3, 0.0, -0.2, -0.3], [1.5, 0.7, 0.0, -0.4, -0.7], [0.4, 0.1, 0.0, -0.1, 0.0]])[y]
    conc = torch.tensor([2.6, 3.2, 2.1])[y][:, None]
    x = torch.cat([mags, conc], 1) + 0.22 * torch.randn(n, 6, generator=g)
    return x - torch.tensor([20.0, 20, 19, 19, 19, 2.5]), y


def block(a, b):
    return nn.Sequential(nn.Linear(a, b, bias=False), nn.BatchNorm1d(b, momentum=CFG["bn_momentum"]), nn.ReLU())


def main():
    torch.manual_seed(CFG["seed"])
    x, y = photometry(2000, 1)
    xv, yv = photometry(600, 2)
    w = CFG["width"]
    model = nn.Sequential(block(6, w), block(w, w), block(w, w), nn.Linear(w, 3))
    opt = torch.optim.Adam(model.parameters(), lr=CFG["lr"])
    for epoch in range(CFG["epochs"]):
        model.train()
        total = hits = 0.0
        for idx in torch.randperm(len(x)).split(CFG["batch_size"]):
            out = model(x[idx])
            loss = nn.functional.cross_entropy(out, y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
            hits += (out.argmax(1) == y[idx]).sum().item()
        model.eval()
        with torch.no_grad():
            out = model(xv)
            vl, va = nn.functional.cross_entropy(out, yv).item(), (out.argmax(1) == yv).float().mean().item()
        print(f"epoch {epoch} train loss {total / len(x):.4f} acc {hits / len(x):.3f} val loss {vl:.4f} acc {va:.3f}")


if __name__ == "__main__":
    main()
