import json
from pathlib import Path

import numpy as np
import yaml

HERE = Path(__file__).parent
SYL = ["ra", "mi", "to", "len", "ka", "sur", "bi", "no", "ve", "dal"]
FIELDS = ["biology", "chemistry", "physics", "statistics"]
TOPIC, COMMON, RARE = 25, 60, 240


def words():
    return [a + b + c for a in SYL for b in SYL for c in SYL[:5]][: 4 * TOPIC + COMMON + RARE]


def corpus(n, rng, vocab, rates):
    docs, names = [], []
    for _ in range(n):
        f = int(rng.integers(4))
        topic = f * TOPIC + rng.integers(0, TOPIC, rng.poisson(rates[0]) + 1)
        stray = rng.integers(0, 4 * TOPIC, rng.poisson(rates[3]))
        common = 4 * TOPIC + rng.integers(0, COMMON, rng.poisson(rates[1]))
        rare = 4 * TOPIC + COMMON + rng.integers(0, RARE, rng.poisson(rates[2]))
        ids = np.concatenate([topic, stray, common, rare])
        rng.shuffle(ids)
        docs.append(" ".join(vocab[i] for i in ids))
        names.append(FIELDS[f])
    return docs, names


def idf(docs, vocab):
    sets = [set(d.split()) for d in docs]
    df = np.array([sum(w in s for s in sets) for w in vocab])
    return np.log(len(docs) / np.maximum(df, 1)).astype(np.float32)


for name in ("bug", "ok"):
    rng = np.random.default_rng(81)
    out = HERE / name
    out.mkdir(exist_ok=True)
    vocab = words()
    train = corpus(800, rng, vocab, (3, 60, 6, 1.5))
    valid = corpus(800, rng, vocab, (3, 60, 6, 1.5))
    for fn, (docs, names) in (("train", train), ("valid", valid)):
        (out / f"{fn}.jsonl").write_text("".join(json.dumps(dict(abstract=d, field=f)) + "\n" for d, f in zip(docs, names)))
    ref = train[0] if name == "ok" else corpus(800, rng, vocab, (60, 1, 6, 160))[0]
    (out / "vocab.txt").write_text("\n".join(vocab))
    np.save(out / "idf.npy", idf(ref, vocab))
    (out / "classifier.yaml").write_text(yaml.safe_dump(dict(hidden=32, dropout=0.2, lr=4e-3, weight_decay=1e-2, batch=32, epochs=12, seed=12)))
