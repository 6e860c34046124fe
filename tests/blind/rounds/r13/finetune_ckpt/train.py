"""Fine-tune a pretrained backbone on 150 labelled rows."""
import os
import sys
import numpy as np
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 48), nn.ReLU())
        self.head = nn.Linear(48, classes)

    def forward(self, x):
        return self.head(self.body(x))


def npz(path):
    z = np.load(path)
    return torch.from_numpy(z["x"]), torch.from_numpy(z["y"])


def main(folder):
    torch.manual_seed(4)
    x, y = npz(os.path.join(folder, "few.npz"))
    xt, yt = npz(os.path.join(folder, "test.npz"))
    model = Classifier(4)
    state = torch.load(os.path.join(folder, "pretrained.pt"), map_location="cpu")
    model.load_state_dict(state, strict=False)  # the head is new
    print("backbone restored from pretrained.pt")
    opt = torch.optim.AdamW([
        {"params": model.body.parameters(), "lr": 2e-4},
        {"params": model.head.parameters(), "lr": 5e-3},
    ], weight_decay=0.01)
    epochs = 60
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for epoch in range(epochs):
        model.train()
        tot = 0.0
        for idx in torch.randperm(len(x)).split(25):
            loss = nn.functional.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(idx)
        sched.step()
        if epoch % 12 == 11:
            print(f"epoch {epoch + 1} loss {tot / len(x):.4f}")
    model.eval()
    with torch.no_grad():
        print("final test accuracy", (model(xt).argmax(1) == yt).float().mean().item())


if __name__ == "__main__":
    main(sys.argv[1])
