import collections
import json
import os
import random
import re

import numpy as np
import torch
import torch.nn as nn

ROOT = os.path.join(os.environ["TRUELOOP_DATA"], "movie-reviews")
TOKEN = re.compile(r"[a-z']+|[!?.,]")


def main():
    rows = []
    for name, label in (("rt-polarity.pos", 1), ("rt-polarity.neg", 0)):
        for line in open(os.path.join(ROOT, name), encoding="latin-1"):
            rows.append((label, " ".join(line.split())))
    random.Random(0).shuffle(rows)
    pre, train, valid = rows[:7000], rows[7000:9000], rows[9000:10200]
    count = collections.Counter(t for _, s in pre for t in set(TOKEN.findall(s.lower())))
    words = ["<pad>", "<unk>"] + [w for w, c in count.most_common() if c >= 4]
    index = {w: i for i, w in enumerate(words)}
    # vectors: bag model trained on the other 7,000 sentences
    torch.manual_seed(0)
    emb = nn.EmbeddingBag(len(words), 24, mode="mean")
    nn.init.normal_(emb.weight, std=0.1)
    head = nn.Linear(24, 2)
    opt = torch.optim.Adam(list(emb.parameters()) + list(head.parameters()), lr=5e-3)
    enc = [(torch.tensor([index.get(t, 1) for t in TOKEN.findall(s.lower())] or [1]), y) for y, s in pre]
    for epoch in range(6):
        random.Random(epoch).shuffle(enc)
        for i in range(0, len(enc), 64):
            part = enc[i:i + 64]
            flat = torch.cat([e for e, _ in part])
            off = torch.tensor([0] + [len(e) for e, _ in part[:-1]]).cumsum(0)
            loss = nn.functional.cross_entropy(head(emb(flat, off)), torch.tensor([y for _, y in part]))
            opt.zero_grad(); loss.backward(); opt.step()
    vec = emb.weight.detach().numpy().astype(np.float32)
    vec /= vec.std()
    vec[0] = 0
    other = ["<pad>", "<unk>"] + sorted(words[2:])  # word list of another release: same words, other order
    for side in ("bug", "ok"):
        os.makedirs(side, exist_ok=True)
        np.save(f"{side}/vectors.npy", vec)
        with open(f"{side}/vocab.txt", "w") as f:
            f.write("\n".join(other if side == "bug" else words))
        for name, part in (("train", train), ("valid", valid)):
            with open(f"{side}/{name}.tsv", "w") as f:
                f.writelines(f"{y}\t{s}\n" for y, s in part)
        json.dump({"seed": 0, "max_len": 40, "hidden": 32, "lr": 0.002, "batch_size": 50, "epochs": 5},
                  open(f"{side}/params.json", "w"))


if __name__ == "__main__":
    main()
