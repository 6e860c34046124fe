"""Hostile tables and images for `predict --input`: one sentence, or predictions; no harm in either case."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.hostile.pickles import PICKLES
from tests.hostile.texts import SPECIAL
from tests.hostile.verbs import call, refused
from trueloop.cli.main import main

HEADER = "length,kind,weight\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a table of a number and a word."""
    folder = tmp_path_factory.mktemp("table")
    rows = [f"{number / 10},{'ab'[number % 2]},{number}" for number in range(60)]
    (folder / "table.csv").write_text(HEADER + "\n".join(rows), encoding="utf-8")
    before = Path.cwd()
    os.chdir(folder)
    try:
        typed = ["tabular", "table.csv", "--target", "weight", "--set", "epochs=1", "--name", "table", "--quiet"]
        assert main(["train", *typed]) == 0
    finally:
        os.chdir(before)
    return folder / "runs" / "table"


def table(*rows: str, header: str = "length,kind") -> bytes:
    return "\n".join((header, *rows)).encode()


TABLES: dict[str, Callable[[Path], bytes]] = {
    "pickle": PICKLES["evil_without_archive"],
    "zeros": lambda _: bytes(1 << 20),
    "no rows": lambda _: table(),
    "empty": lambda _: b"",
    "open quote": lambda _: table('1,"a'),
    "wide cell": lambda _: table("1," + "a" * 1_000_000),
    "short row": lambda _: table("1"),
    "long row": lambda _: table("1,a" + ",b" * 100_000),
    "infinite": lambda _: table("1e400,a"),
    "not a number": lambda _: table("nan,a"),
    "steering cell": lambda _: table("\x1b[2J\u202e,a"),
    "steering header": lambda _: table("1,a", header="length\x1b[2J,kind"),
    "same names": lambda _: table("1,a,2", header="length,kind,length"),
    "utf-16": lambda _: table("1,a").decode().encode("utf-16"),
    "formula": lambda _: table("=HYPERLINK(1),a"),
}
PARQUET: dict[str, Callable[[Path], bytes]] = {
    "pickle": PICKLES["evil_without_archive"],
    "marks": lambda _: b"PAR1" + bytes(100) + b"PAR1",
    "long footer": lambda _: b"PAR1" + bytes(100) + struct.pack("<I", 0xFFFFFFF0) + b"PAR1",
    "empty": lambda _: b"",
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(name: str, trained: Path, tmp_path: Path, canary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_bytes(TABLES[name](canary))
    refused(call("predict", trained, "--input", "x.csv"), r"x\.csv")


@pytest.mark.parametrize("name", PARQUET)
def test_parquet(name: str, trained: Path, tmp_path: Path, canary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    Path("x.parquet").write_bytes(PARQUET[name](canary))
    refused(call("predict", trained, "--input", "x.parquet"), r"x\.parquet")


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_that_are_not_files(
    kind: str, suffix: str, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    SPECIAL[kind](Path(f"x.{suffix}"))
    refused(call("predict", trained, "--input", f"x.{suffix}"))


def test_columns_that_steer_a_terminal_are_written_out(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_bytes(table("1,a,2", header="length,kind,\x1b[2Jextra"))
    said = call("predict", trained, "--input", "x.csv")
    assert said.code == 0
    assert r"does not use: \x1b[2Jextra" in said.err


# -- images --


def bomb() -> bytes:
    """60,000 x 60,000 pixels in a few bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(bytes(1 << 16)))
        + chunk(b"IEND", b"")
    )


def picture(form: str) -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(out, form)
    return out.getvalue()


IMAGES: dict[str, Callable[[Path], bytes]] = {
    "pickle.png": PICKLES["evil_without_archive"],
    "bomb.png": lambda _: bomb(),
    "cut.png": lambda _: picture("PNG")[:40],
    "empty.jpg": lambda _: b"",
    "zeros.tif": lambda _: bytes(1 << 16),
    "script.ppm": lambda canary: f"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n({canary}) run\n".encode(),
    "huge.pgm": lambda _: b"P5 4000000000 4000000000 255\n\x00",
}


@pytest.mark.parametrize("name", IMAGES)
def test_images(name: str, work: Path, canary: Path) -> None:
    Path(name).write_bytes(IMAGES[name](canary))
    refused(call("predict", "runs/good", "--input", name), name)


@pytest.mark.parametrize("kind", SPECIAL)
def test_images_that_are_not_files(kind: str, work: Path) -> None:
    SPECIAL[kind](Path("x.png"))
    refused(call("predict", "runs/good", "--input", "x.png"))


def test_names_that_steer_a_terminal_are_written_out(work: Path) -> None:
    Path("pictures").mkdir()
    Path("pictures", "\x1b[2J.png").write_bytes(picture("PNG"))
    said = call("predict", "runs/good", "--input", "pictures")
    assert said.code == 0
    assert r"\x1b[2J.png," in said.out
