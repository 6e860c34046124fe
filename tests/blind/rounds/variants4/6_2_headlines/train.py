import sys
from pathlib import Path

import numpy as np
import torch
import yaml
from torch import nn


class Headlines:
    def __init__(self, path):
        z = np.load(path)
        self.ids = torch.from_numpy(z["ids"].astype(np.int64))
        self.section = torch.from_numpy(z["section"].astype(np.int64))

    def loop(self, size, rng):
        perm = torch.from_numpy(rng.permutation(len(self.section)))
        for part in perm.split(size):
            yield self.ids[part], self.section[part]


class SectionModel(nn.Module):
    def __init__(self, vectors, sections, pad):
        super().__init__()
        self.pad = pad
        self.words = nn.Embedding.from_pretrained(vectors, freeze=True, padding_idx=pad)
        self.att = nn.Linear(vectors.shape[1], 1)
        self.mlp = nn.Sequential(nn.Linear(vectors.shape[1], 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, sections))

    def forward(self, ids):
        e = self.words(ids)
        a = self.att(e).squeeze(-1).masked_fill(ids == self.pad, -1e9).softmax(-1)
        return self.mlp((a.unsqueeze(-1) * e).sum(1))


def accuracy(model, data):
    model.eval()
    with torch.no_grad():
        return (model(data.ids).argmax(1) == data.section).float().mean().item()


def main():
    folder = Path(sys.argv[1])
    conf = yaml.safe_load((folder / "conf.yaml").read_text())
    torch.manual_seed(conf["seed"])
    rng = np.random.default_rng(conf["seed"])
    vectors = torch.from_numpy(np.load(folder / conf["vectors"]).astype(np.float32))
    train, valid = Headlines(folder / "train.npz"), Headlines(folder / "valid.npz")
    model = SectionModel(vectors, len(conf["sections"]), conf["pad_id"])
    opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=conf["lr"])
    for epoch in range(conf["epochs"]):
        model.train()
        losses = []
        for ids, y in train.loop(conf["batch"], rng):
            loss = nn.functional.cross_entropy(model(ids), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        if epoch % 4 == 3:
            print(f"{epoch + 1:3d} | loss {np.mean(losses):.4f} | valid {accuracy(model, valid):.4f}")
    print(f"valid accuracy {accuracy(model, valid):.4f}")


if __name__ == "__main__":
    main()
