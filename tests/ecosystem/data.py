"""What the scripts read, put where they look for it: cut from real data sets, or made up where none is at hand."""

from __future__ import annotations

import gzip
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

__all__ = ["KINDS", "prepare"]


def mnist(source: Path, into: Path, train: int, test: int) -> None:
    """The first images of each split, in the layout that torchvision expects."""
    raw = into / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for split, count in (("train", train), ("t10k", test)):
        for kind, header in (("images-idx3", 16), ("labels-idx1", 8)):
            name = f"{split}-{kind}-ubyte"
            with gzip.open(source / "mnist" / f"{name}.gz") as file:
                head = file.read(header)
                body = file.read(count * (784 if header == 16 else 1))
            (raw / name).write_bytes(head[:4] + struct.pack(">I", count) + head[8:] + body)


def cifar10(source: Path, into: Path, train: int, test: int) -> None:
    """Made up: ten colours in noise, pickled as the published archive is."""
    folder = into / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    colours = random.integers(40, 216, size=(10, 3, 1))

    def batch(count: int) -> dict[str, object]:
        labels = random.integers(0, 10, size=count)
        images = np.clip(colours[labels] + random.normal(0, 25, size=(count, 3, 1024)), 0, 255)
        return {"data": images.reshape(count, 3072).astype(np.uint8), "labels": labels.tolist()}

    written = {f"data_batch_{i}": batch(train // 5) for i in range(1, 6)}
    written["test_batch"] = batch(test)
    written["batches.meta"] = {"label_names": [f"colour {i}" for i in range(10)]}
    for name, content in written.items():
        (folder / name).write_bytes(pickle.dumps(content))
    (into / "cifar-10-python.tar.gz").touch()


def shakespeare(source: Path, into: Path, train: int, test: int) -> None:
    """One file, input.txt, of as many lines as asked for."""
    lines = (source / "tinyshakespeare" / "input.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    into.mkdir(parents=True, exist_ok=True)
    (into / "input.txt").write_text("".join(lines[:train]), encoding="utf-8")


def corpus(source: Path, into: Path, train: int, test: int) -> None:
    """train.txt, valid.txt and test.txt of plain sentences."""
    lines = (source / "tinyshakespeare" / "input.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    into.mkdir(parents=True, exist_ok=True)
    for name, start, count in (("train", 0, train), ("valid", train, test), ("test", train + test, test)):
        (into / f"{name}.txt").write_text("".join(lines[start : start + count]), encoding="utf-8")


def pictures(source: Path, into: Path, train: int, test: int) -> None:
    """Made up: smooth grey pictures as binary PGM files, named .png because readers look at the content."""
    random = np.random.default_rng(0)
    grid = np.linspace(0, 1, 256)
    for split, count in (("train", train), ("test", test)):
        (into / split).mkdir(parents=True)
        for index in range(count):
            waves = random.uniform(2, 30, size=2)
            picture = 127 + 60 * np.sin(waves[0] * grid)[:, None] + 60 * np.cos(waves[1] * grid)[None, :]
            (into / split / f"{index}.png").write_bytes(b"P5 256 256 255\n" + picture.astype(np.uint8).tobytes())


def citations(source: Path, into: Path, train: int, test: int) -> None:
    """Made up: papers of seven subjects with binary word counts, and who cites whom, as the Cora files are written."""
    random = np.random.default_rng(0)
    papers = train + test
    subjects = random.integers(0, 7, size=papers)
    likely = random.uniform(0.02, 0.2, size=(7, 120))
    words = (random.random((papers, 120)) < likely[subjects]).astype(int)
    words[:, 0] = 1
    into.mkdir(parents=True, exist_ok=True)
    rows = (
        f"{i} {' '.join(map(str, row))} subject{subject}"
        for i, (row, subject) in enumerate(zip(words, subjects, strict=True))
    )
    (into / "cora.content").write_text("\n".join(rows) + "\n", encoding="utf-8")
    pairs = ((a, random.choice(np.flatnonzero(subjects == subjects[a]))) for a in range(papers) for _ in range(2))
    (into / "cora.cites").write_text("\n".join(f"{a} {b}" for a, b in pairs) + "\n", encoding="utf-8")


def pairs(source: Path, into: Path, train: int, test: int) -> None:
    """train.csv and dev.csv of two lines each, and whether the second is the first in another order."""
    random = np.random.default_rng(0)
    lines = (
        (source / "tinyshakespeare" / "input.txt")
        .read_text(encoding="utf-8")
        .replace(",", "")
        .replace('"', "")
        .splitlines()
    )
    lines = [line for line in lines if len(line.split()) > 4]
    into.mkdir(parents=True, exist_ok=True)
    for name, start, count in (("train", 0, train), ("dev", train, test)):
        rows = ["label,sentence1,sentence2"]
        for index, line in enumerate(lines[start : start + count]):
            same = bool(random.integers(2))
            second = " ".join(random.permutation(line.split())) if same else lines[len(lines) - 1 - index]
            rows.append(f"{'equivalent' if same else 'not_equivalent'},{line},{second}")
        (into / f"{name}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def photographs(source: Path, into: Path, train: int, test: int) -> None:
    """Made up: folders of coloured pictures, a folder for each class, as PPM files named .png because readers look at
    the content."""
    random = np.random.default_rng(0)
    for split, count in (("train", train), ("val", test)):
        for kind, colour in (("blue", (40, 60, 200)), ("green", (50, 190, 60)), ("red", (200, 50, 40))):
            folder = into / split / kind
            folder.mkdir(parents=True)
            for index in range(count):
                picture = np.clip(np.array(colour) + random.normal(0, 60, size=(32, 32, 3)), 0, 255).astype(np.uint8)
                (folder / f"{index}.png").write_bytes(b"P6 32 32 255\n" + picture.tobytes())


def names(source: Path, into: Path, train: int, test: int) -> None:
    into.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / "names" / "names.txt", into / "names.txt")


KINDS: dict[str, Callable[[Path, Path, int, int], None]] = {
    "cifar10": cifar10,
    "citations": citations,
    "corpus": corpus,
    "mnist": mnist,
    "names": names,
    "pairs": pairs,
    "photographs": photographs,
    "pictures": pictures,
    "shakespeare": shakespeare,
}


def prepare(kind: str, source: Path, into: Path, train: int, test: int) -> None:
    KINDS[kind](source, into, train, test)
