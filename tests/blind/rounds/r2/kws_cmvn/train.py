import json
import sys

import numpy as np
import torch
import torch.nn as nn

WORDS = 6
EPOCHS = 15


class LogMelClips(torch.utils.data.Dataset):
    def __init__(self, path, stats):
        blob = np.load(path)
        self.mel = (blob["mel"].astype(np.float32) - stats["mean"]) / stats["std"]
        self.word = blob["word"].astype(np.int64)

    def __len__(self):
        return len(self.word)

    def __getitem__(self, i):
        return torch.tensor(self.mel[i], dtype=torch.float32), int(self.word[i])


class KeywordNet(nn.Module):
    def __init__(self, bands=12, width=40):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(bands, width, 8), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten())
        self.out = nn.Linear(width, WORDS)

    def forward(self, mel):
        return self.out(self.conv(mel))


def evaluate(net, loader):
    net.eval()
    hits = n = 0
    with torch.no_grad():
        for mel, word in loader:
            hits += (net(mel).argmax(1) == word).sum().item()
            n += len(word)
    return hits / n


def main(folder):
    torch.manual_seed(4)
    with open(f"{folder}/cmvn.json") as f:
        stats = json.load(f)
    train = torch.utils.data.DataLoader(LogMelClips(f"{folder}/train.npz", stats), batch_size=20, shuffle=True)
    val = torch.utils.data.DataLoader(LogMelClips(f"{folder}/val.npz", stats), batch_size=80)
    net = KeywordNet()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for epoch in range(1, EPOCHS + 1):
        net.train()
        total = 0.0
        for mel, word in train:
            loss = nn.functional.cross_entropy(net(mel), word)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        if epoch % 3 == 0:
            print(f"epoch {epoch} loss {total / len(train):.3f} val accuracy {evaluate(net, val):.3f}")


main(sys.argv[1])
