"""Fine-tune a formation-energy network to Vickers hardness of multi-principal-element alloys."""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

ELEMENTS = ["Al", "Co", "Cr", "Cu", "Fe", "Mn", "Mo", "Ni", "Ti", "V"]


class HardnessModel(nn.Module):
    def __init__(self, n_elements, hidden=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_elements, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.head(self.body(x)).squeeze(1)


def load_data(folder):
    z = np.load(folder / "hardness.npz")
    parts = {k: torch.from_numpy(z[k].astype(np.float32)) for k in z.files}
    for name in ("x_train", "x_val"):
        if not torch.allclose(parts[name].sum(1), torch.ones(len(parts[name])), atol=1e-3):
            raise ValueError(f"{name}: fractions do not sum to one")
    return parts


def load_body(model, folder):
    ckpt = torch.load(folder / "pretrained.pt", map_location="cpu")
    if ckpt["elements"] != ELEMENTS:
        raise ValueError("element order differs from the checkpoint")
    model.body.load_state_dict(ckpt["body"], strict=True)
    print(f"loaded body from step {ckpt['step']}")


def validate(model, x, y, mean, std):
    model.eval()
    with torch.no_grad():
        pred = model(x) * std + mean
    return (pred - y).abs().mean().item(), 1 - ((pred - y) ** 2).sum().item() / ((y - y.mean()) ** 2).sum().item()


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(0)
    d = load_data(folder)
    mean, std = d["y_train"].mean(), d["y_train"].std()
    model = HardnessModel(len(ELEMENTS))
    load_body(model, folder)

    loader = DataLoader(TensorDataset(d["x_train"], (d["y_train"] - mean) / std), batch_size=16, shuffle=True)
    opt = torch.optim.Adam([{"params": model.head.parameters(), "lr": 5e-3},
                            {"params": model.body.parameters(), "lr": 1e-3}])
    epochs = 100
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for epoch in range(1, epochs + 1):
        model.train()
        total = 0.0
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        sched.step()
        if epoch % 20 == 0:
            mae, r2 = validate(model, d["x_val"], d["y_val"], mean, std)
            print(f"epoch {epoch:3d}  train mse {total / len(loader.dataset):.4f}  val MAE {mae:.2f} HV  R2 {r2:.3f}")
    mae, r2 = validate(model, d["x_val"], d["y_val"], mean, std)
    print(f"final: val MAE {mae:.3f} HV, R2 {r2:.4f}")


if __name__ == "__main__":
    main()
