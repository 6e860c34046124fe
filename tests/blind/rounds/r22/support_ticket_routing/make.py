import json
from pathlib import Path

import numpy as np
import torch

rng = np.random.default_rng(52)
QUEUES = ["billing", "login", "delivery", "returns", "technical", "privacy"]
WORDS, DIM = 1200, 32
SYL = ["ba", "ke", "lo", "mi", "nu", "ra", "se", "ti", "vo", "za", "pe", "du", "fi", "go"]
words = []
while len(words) < WORDS:
    w = "".join(rng.choice(SYL, rng.integers(2, 5)))
    if w not in words:
        words.append(w)
topic = rng.integers(0, len(QUEUES) + 2, WORDS)       # the last two: everyday words
centre = rng.normal(0, 1, (len(QUEUES) + 2, DIM))
vec = np.concatenate([np.zeros((1, DIM)), centre[topic] * 0.7 + rng.normal(0, 0.6, (WORDS, DIM))]).astype(np.float32)
weights = {"vectors.weight": torch.from_numpy(vec), "norm.weight": torch.ones(DIM), "norm.bias": torch.zeros(DIM),
           "decoder.weight": torch.randn(8, DIM, generator=torch.Generator().manual_seed(1))}
groups = [np.flatnonzero(topic == k) for k in range(len(QUEUES))]
everyday = np.flatnonzero(topic >= len(QUEUES))


def tickets(n):
    out = []
    for _ in range(n):
        q = int(rng.integers(len(QUEUES)))
        ids = [rng.choice(groups[q] if rng.random() < 0.38 else (everyday if rng.random() < 0.7 else np.arange(WORDS)))
               for _ in range(rng.integers(9, 18))]
        out.append({"text": " ".join(words[i] for i in ids), "queue": QUEUES[q]})
    return out


train, val = tickets(500), tickets(600)
meta = {"seed": 10, "dim": DIM, "queues": QUEUES, "lr": 0.005, "epochs": 10, "words": words}
for side, prefix in (("ok", ""), ("bug", "module.")):
    out = Path(side)
    out.mkdir(exist_ok=True)
    torch.save({prefix + k: v for k, v in weights.items()}, out / "encoder.pt")
    (out / "meta.json").write_text(json.dumps(meta))
    for name, rows in (("train", train), ("val", val)):
        (out / f"{name}.jsonl").write_text("\n".join(json.dumps(r) for r in rows) + "\n")
