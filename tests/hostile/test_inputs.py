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
from trueloop.data import parquet
from trueloop.data.images import image_folder
from trueloop.data.images import picture as pixels_of
from trueloop.errors import BadData

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


ROOM = 200_000_000
"""Bytes that a table may take in the tests of bombs; each of them unpacks to more."""


def of_rows(file: str) -> None:
    """20 million equal rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2_000_000, np.int32)), ["a"])
    part = pa.table({"length": np.zeros(2_000_000), "kind": words, "weight": np.arange(2_000_000) % 7})
    with pq.ParquetWriter(file, part.schema, compression="zstd") as out:
        for _ in range(10):
            out.write_table(part)


def of_pages(file: str) -> None:
    """One page of zeros for each column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    zeros = np.zeros(1_000_000)
    part = {"length": zeros, "weight": np.arange(len(zeros)) % 7, "kind": ["a"] * len(zeros)} | {
        f"more{at}": zeros for at in range(40)
    }
    options = {"compression": "zstd", "use_dictionary": False, "data_page_size": 1 << 30}
    pq.write_table(pa.table(part), file, row_group_size=len(zeros), **options)


def of_words(file: str) -> None:
    """A word of 500 kB, and 1,000 rows that repeat it: only their number is stored, and the footer says 500 kB."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    words = pa.array(["a" * 500_000] * 1_000)
    table = pa.table({"length": np.zeros(1_000), "kind": words, "weight": np.arange(1_000) % 7})
    encodings = {"kind": "DELTA_BYTE_ARRAY", "length": "PLAIN", "weight": "PLAIN"}
    pq.write_table(table, file, compression="zstd", use_dictionary=False, column_encoding=encodings)


def of_decimals(file: str) -> None:
    """Small numbers that are stored in 64 bits and read as 256 bits."""
    import decimal

    import pyarrow as pa
    import pyarrow.parquet as pq

    one = pa.array([decimal.Decimal(1)], pa.decimal256(60))
    numbers = pa.DictionaryArray.from_arrays(pa.array(np.zeros(4_000_000, np.int8)), one).cast(pa.decimal256(60))
    words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(4_000_000, np.int32)), ["a"])
    table = pa.table({"length": numbers, "more": numbers, "kind": words, "weight": np.arange(4_000_000) % 7})
    pq.write_table(table, file, compression="zstd")


BOMBS = {"rows": of_rows, "pages": of_pages, "words": of_words, "decimals": of_decimals}
BOMBED = (
    r"x\.parquet \([\d,]+ bytes\) is too large for this machine: .*, and a table may take 200 MB, half of the memory"
)


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("verb", ["predict", "train"])
def test_parquet_that_unpacks_to_more_than_memory(
    name: str, verb: str, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource")
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    BOMBS[name]("x.parquet")
    assert Path("x.parquet").stat().st_size < 3_000_000
    monkeypatch.setattr(parquet, "memory_budget", lambda: ROOM)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    typed = [trained, "--input", "x.parquet"] if verb == "predict" else ["tabular", "x.parquet", "--target", "weight"]
    said = call(verb, *typed)
    refused(said, BOMBED)
    assert f"Nothing was {'predicted' if verb == 'predict' else 'trained'}: write fewer rows" in said.err
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_a_word_that_fills_many_rows_is_held_once(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"length": np.zeros(1_000), "kind": ["a" * 500_000] * 1_000}), "x.parquet")
    monkeypatch.setattr(parquet, "memory_budget", lambda: ROOM)
    assert call("predict", trained, "--input", "x.parquet", "--output", "y.csv").code == 0
    assert len(Path("y.csv").read_text(encoding="utf-8").splitlines()) == 1_001


def test_nested_columns_are_not_unpacked(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row with a list of 60 million numbers in a column that no model takes."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    many = pa.ListArray.from_arrays([0, 60_000_000], np.zeros(60_000_000, np.int8))
    pq.write_table(pa.table({"length": [1.0], "kind": ["a"], "many": many}), "x.parquet", compression="zstd")
    monkeypatch.setattr(parquet, "memory_budget", lambda: ROOM)
    said = call("predict", trained, "--input", "x.parquet")
    assert said.code == 0
    assert "columns that the model does not use: many" in said.err


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


def black() -> bytes:
    """10,000 x 10,000 pixels that are all there: fewer than those that Pillow itself refuses."""
    out = io.BytesIO()
    Image.fromarray(np.zeros((10_000, 10_000), np.uint8)).save(out, "PNG", compress_level=9)
    return out.getvalue()


def picture(form: str) -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(out, form)
    return out.getvalue()


IMAGES: dict[str, Callable[[Path], bytes]] = {
    "pickle.png": PICKLES["evil_without_archive"],
    "bomb.png": lambda _: bomb(),
    "black.png": lambda _: black(),
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


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_an_image_of_too_many_pixels_is_refused_with_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "black.png").write_bytes(black())
    assert (tmp_path / "black.png").stat().st_size < 200_000
    with pytest.raises(ValueError, match=r"10,000 x 10,000 pixels are more than 89,478,485, the limit of Pillow"):
        pixels_of(str(tmp_path / "black.png"), 1)
    for suffix in range(10):
        place = tmp_path / "images" / "ab"[suffix % 2] / f"{suffix}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(tmp_path / "black.png")
    with pytest.raises(BadData, match=r"\d\.png cannot be read: its 10,000 x 10,000 pixels are more than"):
        image_folder(tmp_path / "images", size=8)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert pixels_of(str(tmp_path / "black.png"), 1, (4, 4)).tolist() == [[[0] * 4] * 4]


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
