import copy
import re
import sys
import zlib
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn

TOKEN = re.compile(r"Cl|Br|[A-Za-z]|[0-9]|[()=#]")
N_BITS = 1024


def fingerprint(smiles, max_n=6):
    """Hashed counts of token n-grams."""
    toks = TOKEN.findall(smiles)
    fp = np.zeros(N_BITS, dtype=np.float32)
    for n in range(1, max_n + 1):
        for i in range(len(toks) - n + 1):
            fp[zlib.crc32(" ".join(toks[i:i + n]).encode()) % N_BITS] += 1
    return np.log1p(fp)


def read_table(path):
    lines = Path(path).read_text().splitlines()[1:]
    smiles, target = [], []
    for line in lines:
        _, s, v = line.split("\t")
        smiles.append(s)
        target.append(float(v))
    x = np.stack([fingerprint(s) for s in smiles])
    return torch.from_numpy(x), torch.tensor(target)


def mlp():
    return nn.Sequential(nn.Linear(N_BITS, 256), nn.ReLU(), nn.Dropout(0.1),
                         nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1))


def r2(model, x, y):
    model.eval()
    with torch.no_grad():
        p = model(x).squeeze(1)
    return (1 - ((p - y) ** 2).sum() / ((y - y.mean()) ** 2).sum()).item()


def fit(train, valid, epochs=50, batch=64, lr=1e-3):
    x, y = train
    center, scale = y.mean(), y.std()
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-2)
    best, keep, wait = -1e9, None, 0
    for epoch in range(epochs):
        model.train()
        perm = torch.randperm(len(y))
        total = 0.0
        for b in perm.split(batch):
            pred = model(x[b]).squeeze(1)
            loss = nn.functional.mse_loss(pred, (y[b] - center) / scale)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(b)
        score = r2(model, valid[0], (valid[1] - center) / scale)
        print(f"epoch {epoch:02d} train mse {total / len(y):.4f} valid R2 {score:.4f}")
        if score > best:
            best, keep, wait = score, copy.deepcopy(model.state_dict()), 0
        else:
            wait += 1
            if wait == 20:
                break
    model.load_state_dict(keep)
    return model, center, scale


def main():
    root = Path(sys.argv[1])
    torch.manual_seed(0)
    train, valid, test = (read_table(root / f"{p}.tsv") for p in ("train", "valid", "test"))
    print("compounds:", len(train[1]), len(valid[1]), len(test[1]))
    model, center, scale = fit(train, valid)
    print(f"test R2 {r2(model, test[0], (test[1] - center) / scale):.4f}")


if __name__ == "__main__":
    main()
