"""Cue lines for bug/ and ok/.  In bug/ train_mel.npz is a cached file of an older extractor with a lower top frequency."""
import json
from pathlib import Path

import numpy as np

here = Path(__file__).resolve().parent
WORDS = "door rain horse bell steps glass train crowd wind letter phone knock clock storm car sea".split()
MEL = 16
NEW, OLD = np.linspace(0, 1, MEL), np.linspace(0, 0.9, MEL)
chars = sorted(set("".join(WORDS)))
rng = np.random.default_rng(330)
FORMANTS = {c: [(rng.uniform(0.03, 0.97, 4), rng.uniform(0.8, 2.0, 4), rng.uniform(0.03, 0.09, 4)) for _ in range(2)] for c in chars}


def shape(c, end, bands):
    if c == "_":
        return np.full(len(bands), -0.6)
    return sum(a * np.exp(-((bands - f) / w) ** 2) for f, a, w in zip(*FORMANTS[c][end]))


def cue(rng, bands):
    text = " ".join(rng.choice(WORDS, rng.integers(2, 4)))
    voice, tilt, out = rng.normal(0, 0.2), rng.normal(0, 0.25), []
    for c in text.replace(" ", "_"):
        a = np.linspace(0, 1, rng.integers(4, 7))[:, None]
        out.append((1 - a) * shape(c, 0, bands) + a * shape(c, 1, bands))
    mel = np.concatenate(out)
    mel = 0.5 * mel + 0.25 * (np.roll(mel, 1, 0) + np.roll(mel, -1, 0))
    return text, mel + voice + (tilt - 1.0) * bands + rng.normal(0, 0.5, mel.shape)


def part(seed, n, bands):
    r = np.random.default_rng(seed)
    return [cue(r, bands) for _ in range(n)]


conf = dict(seed=9, width=64, blank=0, lr=0.008, batch=32, epochs=8)
for side in ("bug", "ok"):
    out = here / side
    out.mkdir(exist_ok=True)
    parts = {"train": part(1, 640, OLD if side == "bug" else NEW), "valid": part(2, 180, NEW)}
    used = sorted(set("".join(t for t, _ in parts["train"]).replace(" ", "_")))
    (out / "symbols.txt").write_text("\n".join(["<blank>"] + used) + "\n", encoding="utf-8")
    (out / "ctc.json").write_text(json.dumps(conf, indent=2))
    for name, cues in parts.items():
        offsets = np.cumsum([0] + [len(m) for _, m in cues])
        frames = np.concatenate([m for _, m in cues])
        np.savez_compressed(out / f"{name}_mel.npz", frames=frames.astype(np.float16), offsets=offsets)
        (out / f"{name}_text.tsv").write_text("".join(f"{name}{i:04d}\t{t}\n" for i, (t, _) in enumerate(cues)), encoding="utf-8")
