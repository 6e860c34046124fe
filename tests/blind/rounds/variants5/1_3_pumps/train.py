import configparser
import pathlib
import sys

import numpy as np
import torch
from torch import nn

STATES = ("healthy", "cavitation", "misaligned", "worn_bearing")


class PumpData:
    def __init__(self, folder, rng):
        arrays = np.load(folder / "windows.npz")
        x, y = arrays["signals"].astype(np.float32), arrays["state"].astype(np.int64)
        order = rng.permutation(len(x))
        cut1, cut2 = int(len(x) * 0.7), int(len(x) * 0.85)
        self.index = {"train": order[:cut1], "valid": order[cut1:cut2], "test": order[cut2:]}
        ref = x[self.index["train"]]
        self.x = torch.from_numpy((x - ref.mean((0, 1))) / ref.std((0, 1)))
        self.y = torch.from_numpy(y)
        self.rng = rng

    def batches(self, part, size):
        rows = self.index[part]
        if part == "train":
            rows = self.rng.permutation(rows)
        for i in range(0, len(rows), size):
            pick = torch.as_tensor(rows[i:i + size])
            yield self.x[pick], self.y[pick]


class StateClassifier(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.front = nn.Conv1d(channels, hidden, 5, stride=2, padding=2)
        self.rnn = nn.GRU(hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, len(STATES))

    def forward(self, x):
        h = torch.relu(self.front(x.transpose(1, 2))).transpose(1, 2)
        states, _ = self.rnn(h)
        return self.out(states.mean(1))


def accuracy(model, data, part):
    model.eval()
    hits = count = 0
    with torch.no_grad():
        for x, y in data.batches(part, 256):
            hits += (model(x).argmax(1) == y).sum().item()
            count += len(y)
    return hits / count


def fit(model, data, section):
    opt = torch.optim.SGD(model.parameters(), lr=section.getfloat("learning_rate"),
                          momentum=section.getfloat("momentum"), nesterov=True)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(1, section.getint("epochs") + 1):
        model.train()
        running = []
        for x, y in data.batches("train", section.getint("batch_size")):
            loss = criterion(model(x), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), section.getfloat("max_grad_norm"))
            opt.step()
            running.append(loss.item())
        print(f"[{epoch:02d}] loss={np.mean(running):.4f} valid_acc={accuracy(model, data, 'valid'):.3f}")


def main(folder):
    ini = configparser.ConfigParser()
    ini.read(folder / "pump.ini")
    torch.manual_seed(ini.getint("run", "seed"))
    data = PumpData(folder, np.random.default_rng(ini.getint("run", "seed")))
    model = StateClassifier(data.x.shape[2], ini.getint("model", "hidden"))
    fit(model, data, ini["optim"])
    print(f"test_acc={accuracy(model, data, 'test'):.4f}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
