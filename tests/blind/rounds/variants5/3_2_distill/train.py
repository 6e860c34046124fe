"""Distils a large gesture model into a small student, from stored teacher logits."""
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Gestures(Dataset):
    def __init__(self, x, y, teacher=None):
        self.x = torch.as_tensor(x, dtype=torch.float32)
        self.y = torch.as_tensor(y, dtype=torch.long)
        self.teacher = None if teacher is None else torch.as_tensor(teacher, dtype=torch.float32)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        item = {"x": self.x[i], "y": self.y[i]}
        if self.teacher is not None:
            item["teacher"] = self.teacher[i]
        return item


class Student(nn.Module):
    def __init__(self, channels, n_class):
        super().__init__()
        self.conv1 = nn.Conv1d(channels, 16, 5, padding=2)
        self.conv2 = nn.Conv1d(16, 24, 5, padding=2)
        self.fc = nn.Linear(24 * 2, n_class)

    def forward(self, x):
        h = F.max_pool1d(F.relu(self.conv1(x)), 2)
        h = F.relu(self.conv2(h))
        return self.fc(torch.cat([h.mean(2), h.amax(2)], 1))


def distill_loss(logits, batch, alpha, temp):
    soft = F.kl_div(F.log_softmax(logits / temp, 1), F.log_softmax(batch["teacher"] / temp, 1),
                    log_target=True, reduction="batchmean") * temp ** 2
    return alpha * soft + (1 - alpha) * F.cross_entropy(logits, batch["y"])


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        hits = [(model(b["x"]).argmax(1) == b["y"]).float() for b in loader]
    return torch.cat(hits).mean().item()


def main(folder):
    cfg = json.loads((folder / "distill.json").read_text())
    torch.manual_seed(cfg["seed"])
    tr, va, te = (np.load(folder / f"{p}.npz") for p in ("train", "valid", "test"))
    logits = np.load(folder / "teacher_logits.npy")
    mean = tr["accel"].mean((0, 2), keepdims=True)
    std = tr["accel"].std((0, 2), keepdims=True)
    loaders = {
        "train": DataLoader(Gestures((tr["accel"] - mean) / std, tr["gesture"], logits), cfg["batch_size"], shuffle=True),
        "valid": DataLoader(Gestures((va["accel"] - mean) / std, va["gesture"]), 256),
        "test": DataLoader(Gestures((te["accel"] - mean) / std, te["gesture"]), 256),
    }
    model = Student(tr["accel"].shape[1], len(cfg["classes"]))
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    for epoch in range(cfg["epochs"]):
        model.train()
        log = []
        for batch in loaders["train"]:
            loss = distill_loss(model(batch["x"]), batch, cfg["alpha"], cfg["temperature"])
            opt.zero_grad()
            loss.backward()
            opt.step()
            log.append(loss.item())
        print(f"epoch {epoch + 1:2d} loss {np.mean(log):.4f} valid acc {evaluate(model, loaders['valid']):.4f}")
    print(f"test acc {evaluate(model, loaders['test']):.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
