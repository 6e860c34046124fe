"""Lists of pieces: any that is written is read as it was, and any that is damaged is refused in one sentence, never by
a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.checkpoint.shards import write_pieces
from trueloop.checkpoint import sharded_tensors
from trueloop.checkpoint.contents import TRAINING, newest_valid, read_contents
from trueloop.checkpoint.plan import name_of
from trueloop.checkpoint.safetensors_header import Entry, entries_of
from trueloop.checkpoint.sharded import (
    Piece,
    TensorPieces,
    file_of,
    group_of,
    is_sharded,
    piece_table,
    read_piece_table,
)
from trueloop.checkpoint.sharded_tensors import (
    FileBlocks,
    MemoryBlocks,
    assemble_tensors,
    check_piece,
    dtype_of,
    single_pieces,
)
from trueloop.checkpoint.store import MANIFEST, Folder, Memory, Store, seal_json, unseal_json
from trueloop.errors import BadCheckpoint

PLENTY = {"bytes": 1 << 40, "sha256": ""}


@st.composite
def spreads(draw: st.DrawFn) -> TensorPieces:
    """A tensor cut along some of its dimensions, each into parts of any size: a grid, one file for each cell of it."""
    shape = tuple(draw(st.lists(st.integers(0, 6), max_size=3)))
    cells: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((), ())]
    for length in shape:
        cuts = sorted(draw(st.sets(st.integers(1, max(1, length - 1)), max_size=2))) if length > 1 else []
        ends = [0, *cuts, length]
        cells = [((*start, low), (*size, high - low)) for start, size in cells for low, high in pairwise(ends)]
    order = draw(st.permutations(range(len(cells))))
    pieces = tuple(Piece(file_of("model", rank, len(cells)), *cells[rank]) for rank in order)
    return TensorPieces(draw(st.sampled_from(["float32", "bfloat16", "int64", "bool"])), shape, pieces)


def manifest(written: dict[str, TensorPieces]) -> dict[str, Any]:
    files = {piece.file: PLENTY for spread in written.values() for piece in spread.pieces}
    made: dict[str, Any] = json.loads(json.dumps({**piece_table(written), "files": files}))
    return made


keys = st.text('ab.é/ "', max_size=4).map(lambda name: f"model/{name}")


@given(st.dictionaries(keys, spreads(), max_size=2))
@settings(max_examples=80)
def test_any_list_comes_back_from_json_as_it_was(written: dict[str, TensorPieces]) -> None:
    assert read_piece_table(manifest(written), "here") == written


@given(spreads())
def test_what_is_cut_is_put_together_again(spread: TensorPieces) -> None:
    whole = torch.arange(spread.count).reshape(spread.shape).to(dtype_of(spread, "here"))
    held = [(piece.file, {"a.b": _cut(whole, piece)}) for piece in spread.pieces]
    found = assemble_tensors({"model/a.b": spread}, held, "here")
    assert torch.equal(found["model"]["a.b"], whole)
    assert found["model"]["a.b"].dtype == whole.dtype


def _cut(whole: Tensor, piece: Piece) -> Tensor:
    return whole[tuple(slice(at, at + length) for at, length in zip(piece.start, piece.size, strict=True))]


@given(spreads(), st.data())
def test_a_list_without_one_of_its_pieces_is_refused(spread: TensorPieces, data: st.DataObject) -> None:
    lost = data.draw(st.sampled_from(spread.pieces))
    if not all(lost.size):
        return  # an empty piece says nothing
    short = replace(spread, pieces=tuple(piece for piece in spread.pieces if piece is not lost))
    with pytest.raises(BadCheckpoint, match="model/a is not the sum of its pieces"):
        read_piece_table(manifest({"model/a": short}), "here")


@given(spreads(), st.data())
def test_a_piece_that_is_moved_is_noticed(spread: TensorPieces, data: st.DataObject) -> None:
    """Beyond the end, or over another one: then some place is empty, and what is there would be whatever was in
    memory."""
    movable = [piece for piece in spread.pieces if piece.size and all(piece.size)]
    if not movable:
        return
    piece = data.draw(st.sampled_from(movable))
    along = data.draw(st.integers(0, len(spread.shape) - 1))
    by = data.draw(st.sampled_from([-2, -1, 1, 2]))
    start = tuple(at + by * (place == along) for place, at in enumerate(piece.start))
    moved = replace(
        spread, pieces=tuple(replace(each, start=start) if each is piece else each for each in spread.pieces)
    )
    with pytest.raises(BadCheckpoint, match=r"model/a (has|is not)"):
        read_piece_table(manifest({"model/a": moved}), "here")


OVERLAPPING: list[TensorPieces] = [
    TensorPieces("float32", (4,), (Piece("a", (0,), (3,)), Piece("b", (2,), (1,)))),
    TensorPieces("float32", (4, 4), (Piece("a", (0, 0), (2, 4)), Piece("b", (1, 0), (2, 4)))),
    TensorPieces(
        "float32", (2, 2), (Piece("a", (0, 0), (2, 1)), Piece("b", (0, 1), (1, 1)), Piece("c", (1, 0), (1, 1)))
    ),
]


@pytest.mark.parametrize("spread", OVERLAPPING, ids=range(len(OVERLAPPING)))
def test_pieces_of_the_right_size_that_lie_over_one_another_are_refused(spread: TensorPieces) -> None:
    with pytest.raises(BadCheckpoint, match="model/a has overlapping pieces"):
        read_piece_table(manifest({"model/a": spread}), "here")


anything: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "0+1", "1+2 0+3", "float32", "a", "+"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["dtype", "shape", "pieces", "a", "b"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(anything)
@settings(max_examples=120)
def test_whatever_stands_in_the_place_of_a_list_is_a_list_or_refused(told: Any) -> None:
    _read_or_refused({"format": 2, "pieces": told, "files": {"a": PLENTY, "b": PLENTY}})


@given(st.dictionaries(st.sampled_from(["dtype", "shape", "pieces"]), anything))
@settings(max_examples=120)
def test_whatever_stands_in_the_place_of_a_row_is_a_row_or_refused(row: Any) -> None:
    whole = {"dtype": "float32", "shape": [2], "pieces": {"a": "0+2"}}
    _read_or_refused({"format": 2, "pieces": {"model/a": {**whole, **row}}, "files": {"a": PLENTY, "b": PLENTY}})


def _read_or_refused(told: Any) -> None:
    try:
        found = read_piece_table(told, "here")
    except BadCheckpoint as error:
        found, said = {}, str(error)
    else:
        said = "here is invalid: of all this nothing."
    assert said.startswith("here is invalid: ")
    assert said.endswith(".")
    for spread in found.values():
        assert spread.count == sum(_count(piece) for piece in spread.pieces)


def _count(piece: Piece) -> int:
    return TensorPieces("", piece.size, ()).count


# -- what a file may hold --


@pytest.mark.parametrize(("room", "fits"), [(5, False), (6, True)])
def test_a_piece_of_more_numbers_than_its_file_has_bytes_is_refused_before_room_is_made(room: int, fits: bool) -> None:
    told = {
        **piece_table({"model/a": TensorPieces("int8", (2, 3), (Piece("a", (0, 0), (2, 3)),))}),
        "files": {"a": {"bytes": room}},
    }
    if fits:
        assert read_piece_table(told, "here")
        return
    with pytest.raises(BadCheckpoint, match="model/a has a piece that is larger than its file"):
        read_piece_table(told, "here")


@pytest.mark.parametrize("size", ["many", None, 1.5, [3]])
def test_a_size_of_a_file_that_is_no_number_is_refused(tmp_path: Path, size: Any) -> None:
    """By whoever reads the manifest: nobody after that looks at it again."""
    folder = Folder(tmp_path)
    name = write_pieces(folder, 10)
    _resealed(folder, name, lambda told: told["files"]["model-0-of-2.safetensors"].update(bytes=size))
    with pytest.raises(BadCheckpoint, match="is invalid"):
        read_contents(folder, name)


def _resealed(folder: Folder, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    file = folder.folder / name / MANIFEST
    told = unseal_json(file.read_bytes(), "")
    change(told)
    file.write_bytes(seal_json(told))


def test_a_piece_in_a_file_that_holds_no_pieces_is_refused(tmp_path: Path) -> None:
    """training.pt is among the files, but nobody looks for tensors there."""
    folder = Folder(tmp_path)
    name = write_pieces(folder, 10)
    _resealed(folder, name, lambda told: told["pieces"]["model/one"].update(pieces={TRAINING: "0+1"}))
    with pytest.raises(BadCheckpoint, match="model/one"):
        read_contents(folder, name)


def test_a_file_that_does_not_come_leaves_no_tensor_half_made() -> None:
    spread = TensorPieces("float32", (4,), (Piece("first", (0,), (2,)), Piece("second", (2,), (2,))))
    with pytest.raises(BadCheckpoint, match="model/a"):
        assemble_tensors({"model/a": spread}, [("first", {"a": torch.ones(2)})], "here")


# -- one piece --


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "holds nothing"),
        (torch.zeros(3), r"holds torch.float32 of \(3,\)"),
        (torch.zeros(2, dtype=torch.float64), r"holds torch.float64 of \(2,\)"),
    ],
)
def test_a_file_that_holds_something_else_says_what(found: Tensor | None, words: str) -> None:
    with pytest.raises(
        BadCheckpoint,
        match=rf"here/f is invalid: for model/a it {words}, the manifest says torch.float32 of \(2,\)",
    ):
        check_piece(found, Piece("f", (0,), (2,)), torch.float32, "here/f", "model/a")
    good = torch.zeros(2)
    assert check_piece(good, Piece("f", (0,), (2,)), torch.float32, "here/f", "model/a") is good


@pytest.mark.parametrize("word", ["load", "nn", "no_such", "", "Tensor", "float32 "])
def test_words_that_are_no_type_of_number_are_refused(word: str) -> None:
    with pytest.raises(BadCheckpoint, match="a dtype that this torch does not have"):
        dtype_of(TensorPieces(word, (), ()), "here")


@given(st.lists(st.integers(0, 4), max_size=3), st.data())
def test_every_block_of_a_whole_tensor_can_be_had(shape: list[int], data: st.DataObject) -> None:
    whole = torch.arange(torch.Size(shape).numel()).reshape(shape)
    (spread,) = single_pieces({"model/a": whole}).values()
    start = tuple(data.draw(st.integers(0, length)) for length in shape)
    size = tuple(data.draw(st.integers(0, length - at)) for length, at in zip(shape, start, strict=True))
    found = MemoryBlocks({"model/a": whole}).block("model/a", spread.pieces[0], start, size)
    assert torch.equal(found, _cut(whole, Piece("", start, size)))
    assert spread.pieces[0] == Piece("", (0,) * len(shape), tuple(shape))


def test_a_header_is_read_once_for_all_its_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(tmp_path)
    name = write_pieces(folder, 10)
    told = read_piece_table(folder.manifest(name), "here")
    read: list[str] = []

    def counted(path: Path) -> list[Entry]:
        read.append(path.name)
        return entries_of(path)

    monkeypatch.setattr(sharded_tensors, "entries_of", counted)
    blocks = FileBlocks(folder.folder / name)
    for key in ("model/layer.weight", "model/layer.bias", "model/layer.weight"):
        piece = told[key].pieces[0]
        assert blocks.block(key, piece, (0,) * len(piece.size), piece.size).shape == piece.size
    assert read == ["model-0-of-2.safetensors"]


# -- names --


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("model/a.b", ("model", "a.b")),
        ("model/a/b", ("model", "a/b")),
        ("model", ("model", "")),
        ("optimizer/0.step", ("optimizer", "0.step")),
    ],
)
def test_a_key_is_a_group_and_a_name(key: str, parts: tuple[str, str]) -> None:
    assert group_of(key) == parts


@pytest.mark.parametrize(
    ("told", "sharded"), [({"format": 2}, True), ({"format": 1}, False), ({}, False), ({"format": "2"}, False)]
)
def test_the_format_says_whether_there_are_pieces(told: dict[str, Any], sharded: bool) -> None:
    assert is_sharded(told) is sharded


# -- the newest one that is whole --


def broken(*names: str) -> Callable[[Store, str], str]:
    def read(_: Store, name: str) -> str:
        if name in names:
            raise BadCheckpoint(f"{name} is damaged.")
        return f"what {name} holds"

    return read


def test_the_newest_that_can_be_read_is_taken_and_those_after_it_are_told_of_from_the_newest_on() -> None:
    store = Memory()
    for step in (30, 10, 20):
        write_pieces(store, step)
    names = [name_of(step) for step in (10, 20, 30)]
    assert newest_valid(store, broken()) == (names[2], f"what {names[2]} holds", [])
    assert newest_valid(store, broken(*names[1:])) == (
        names[0],
        f"what {names[0]} holds",
        [f"{names[2]} is damaged.", f"{names[1]} is damaged."],
    )
    assert newest_valid(store, broken(*names)) == (None, None, [f"{name} is damaged." for name in reversed(names)])


def test_where_there_is_none_there_is_nothing_to_tell() -> None:
    assert newest_valid(Memory(), read_contents) == (None, None, [])


def test_what_is_no_damage_is_not_passed_over() -> None:
    store = Memory()
    write_pieces(store, 10)

    def read(_: Store, name: str) -> str:
        raise PermissionError(13, "Permission denied")

    with pytest.raises(PermissionError):
        newest_valid(store, read)
