"""Meter readings of four digits: which MNIST images make up each strip, the text, and the charset."""
import gzip
import os
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
raw = gzip.open(os.environ["TRUELOOP_DATA"] + "/mnist/train-labels-idx1-ubyte.gz").read()
digits = np.frombuffer(raw, np.uint8, offset=8)
rng = np.random.default_rng(30)


def strips(lo, hi, n):
    pick = rng.integers(lo, hi, (n, 4))
    return [" ".join(map(str, p)) + "\t" + "".join(str(digits[k]) for k in p) for p in pick]


train, test = strips(0, 9000, 1500), strips(9000, 12000, 400)
for name, charset in (("ok", "0123456789"), ("bug", "123456789")):
    d = HERE / name
    d.mkdir(exist_ok=True)
    (d / "train.tsv").write_text("\n".join(train) + "\n")
    (d / "test.tsv").write_text("\n".join(test) + "\n")
    (d / "charset.txt").write_text("\n".join(charset) + "\n")
