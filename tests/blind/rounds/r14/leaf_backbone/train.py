"""Few-shot leaf classifier on a pretrained encoder."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(40, 128)
        self.norm = nn.LayerNorm(128)
        self.out = nn.Linear(128, 12)

    def forward(self, x):
        return self.out(F.relu(self.norm(self.stem(x))))


class LeafModel(nn.Module):
    def __init__(self, n_species):
        super().__init__()
        self.encoder = Encoder()
        self.classifier = nn.Linear(12, n_species)

    def load_encoder(self, path):
        ckpt = torch.load(path, map_location="cpu")
        self.encoder.load_state_dict(ckpt["state_dict"], strict=False)
        for p in self.encoder.parameters():
            p.requires_grad_(False)
        print("encoder restored from epoch", ckpt["epoch"])

    def forward(self, x):
        return self.classifier(self.encoder(x))


def main():
    folder = sys.argv[1]
    torch.manual_seed(0)
    train = torch.load(os.path.join(folder, "train.pt"))
    test = torch.load(os.path.join(folder, "test.pt"))
    model = LeafModel(int(train["y"].max()) + 1)
    model.load_encoder(os.path.join(folder, "encoder.pt"))
    opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for step in range(1, 301):
        loss = F.cross_entropy(model(train["x"]), train["y"])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.3f}")
    with torch.no_grad():
        acc = (model(test["x"]).argmax(1) == test["y"]).float().mean().item()
    print(f"test accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
