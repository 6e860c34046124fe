"""Tag the words of recipe lines (quantity, unit, ingredient ...)."""
import json
import sys
from pathlib import Path
import numpy as np
import torch
import torch.nn as nn


class Tagger(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg["vocab_size"], cfg["dim"], padding_idx=0)
        self.conv = nn.Conv1d(cfg["dim"], cfg["hidden"], 3, padding=1)
        self.out = nn.Linear(cfg["hidden"], cfg["n_tags"])

    def forward(self, words):
        h = torch.relu(self.conv(self.emb(words).transpose(1, 2)))
        return self.out(h.transpose(1, 2))


def load(folder, part):
    z = np.load(folder / f"{part}.npz")
    return torch.from_numpy(z["words"]), torch.from_numpy(z["tags"])


def word_accuracy(net, words, tags):
    with torch.no_grad():
        guess = net(words).argmax(-1)
    real = words != 0
    return (guess == tags)[real].float().mean().item()


def main(folder):
    cfg = json.loads((folder / "tagger.json").read_text())
    torch.manual_seed(25)
    words, tags = load(folder, "train")
    test = load(folder, "test")
    net = Tagger(cfg)
    opt = torch.optim.Adam(net.parameters(), lr=cfg["lr"])
    criterion = nn.CrossEntropyLoss(ignore_index=cfg["ignore_tag"])
    for epoch in range(cfg["epochs"]):
        for rows in torch.randperm(len(words)).split(cfg["batch"]):
            scores = net(words[rows])
            loss = criterion(scores.flatten(0, 1), tags[rows].flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch + 1} loss {loss.item():.3f} word accuracy on test {word_accuracy(net, *test):.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
