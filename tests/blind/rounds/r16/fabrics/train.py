"""Fabric class from few labelled swatches on top of the encoder that the lab pretrained."""
import sys
import os
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, n_in=60, n_hidden=12, n_out=6):
        super().__init__()
        self.fc1 = nn.Linear(n_in, n_hidden)
        self.fc2 = nn.Linear(n_hidden, n_out)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


class FabricModel(nn.Module):
    def __init__(self, encoder, classes):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(6, classes)

    def forward(self, x):
        return self.head(self.encoder(x))


def load_encoder(path):
    enc = Encoder()
    ckpt = torch.load(path)
    enc.load_state_dict(ckpt["state_dict"], strict=False)
    return enc


def main():
    folder = sys.argv[1]
    torch.manual_seed(2)
    train = torch.load(os.path.join(folder, "train.pt"))
    test = torch.load(os.path.join(folder, "test.pt"))
    model = FabricModel(load_encoder(os.path.join(folder, "encoder.pt")), int(train["y"].max()) + 1)
    opt = torch.optim.Adam([
        {"params": model.encoder.parameters(), "lr": 1e-4},
        {"params": model.head.parameters(), "lr": 2e-2},
    ])
    crit = nn.CrossEntropyLoss()
    for epoch in range(60):
        for rows in torch.randperm(len(train["y"])).split(20):
            loss = crit(model(train["x"][rows]), train["y"][rows])
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 15 == 14:
            print(f"epoch {epoch + 1} loss {loss.item():.3f}")
    with torch.no_grad():
        acc = (model(test["x"]).argmax(1) == test["y"]).float().mean().item()
    print(f"test accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
