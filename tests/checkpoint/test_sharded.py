"""Checkpoints in pieces: what is read is what was cut, damage is passed over, nothing that is read runs, and every
command knows them."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load

from tests.checkpoint.shards import WHOLES, cut_in_two, write_pieces
from trueloop.checkpoint.contents import TRAINING, Contents, newest_valid, read_contents
from trueloop.checkpoint.plan import name_of
from trueloop.checkpoint.sharded import (
    SHARDED,
    Piece,
    TensorPieces,
    group_of,
    is_sharded,
    piece_table,
    read_piece_table,
)
from trueloop.checkpoint.sharded_storage import PieceReader
from trueloop.checkpoint.sharded_tensors import FileBlocks, MemoryBlocks, assemble_tensors, single_pieces
from trueloop.checkpoint.store import MANIFEST, Folder, Memory, Store, seal_json, unseal_json
from trueloop.checkpoint.weights import read_weights
from trueloop.cli.main import main
from trueloop.errors import BadCheckpoint
from trueloop.inspection.checkpoint import inspect_checkpoint

BEFORE, NEWEST = name_of(10), name_of(20)
FILES = [f"{group}-{rank}-of-2.safetensors" for group in ("model", "ema", "optimizer") for rank in (0, 1)] + [
    TRAINING,
    MANIFEST,
]


@pytest.fixture
def two(tmp_path: Path) -> Folder:
    """A store with two checkpoints in pieces."""
    folder = Folder(tmp_path / "checkpoints")
    for step in (10, 20):
        write_pieces(folder, step)
    return folder


# -- the list of pieces --


def spread() -> TensorPieces:
    return TensorPieces("float32", (5, 3), (Piece("a", (0, 0), (3, 3)), Piece("b", (3, 0), (2, 3))))


def manifest(*, files: tuple[str, ...] = ("a", "b", "d"), **spreads: TensorPieces) -> dict[str, Any]:
    return {**piece_table(spreads), "files": {file: {"bytes": 1000} for file in files}}


def test_a_list_of_pieces_comes_back_as_it_was() -> None:
    scalar, nothing = (
        TensorPieces("int64", (), (Piece("b", (), ()),)),
        TensorPieces("bfloat16", (0, 4), (Piece("a", (0, 0), (0, 4)),)),
    )
    written = manifest(weight=spread(), scalar=scalar, nothing=nothing)
    assert read_piece_table(written, "here") == {"weight": spread(), "scalar": scalar, "nothing": nothing}
    assert written["pieces"]["weight"]["pieces"] == {"a": "0+3 0+3", "b": "3+2 0+3"}
    assert is_sharded(written)
    assert not is_sharded({"format": 1})
    assert not is_sharded({})


BAD: list[tuple[TensorPieces, str]] = [
    (replace(spread(), pieces=spread().pieces[:1]), "not the sum of its pieces"),
    (replace(spread(), pieces=(*spread().pieces, Piece("d", (4, 0), (1, 3)))), "not the sum of its pieces"),
    (replace(spread(), pieces=(Piece("a", (0, 0), (3, 3)), Piece("b", (4, 0), (2, 3)))), "outside its shape"),
    (replace(spread(), pieces=(Piece("a", (-1, 0), (3, 3)), Piece("b", (3, 0), (2, 3)))), "outside its shape"),
    (replace(spread(), pieces=(Piece("a", (0,), (15,)),)), "a different number of dimensions"),
    (
        replace(spread(), pieces=(Piece("a", (0, 0), (3, 3)), Piece("c", (3, 0), (2, 3)))),
        "which is not among the files",
    ),
    (TensorPieces("float32", (10**9, 10**9), (Piece("a", (0, 0), (10**9, 10**9)),)), "larger than its file"),
    (
        TensorPieces("float32", (4, 3), (Piece("a", (0, 0), (2, 3)), Piece("b", (0, 0), (2, 3)))),
        "overlapping pieces",
    ),
]


@pytest.mark.parametrize(("bad", "words"), BAD, ids=[f"{number}-{words}" for number, (_, words) in enumerate(BAD)])
def test_pieces_that_are_no_tensor_are_not_trusted(bad: TensorPieces, words: str) -> None:
    with pytest.raises(BadCheckpoint, match=f"here is invalid: weight .*{words}"):
        read_piece_table(manifest(weight=bad), "here")


@pytest.mark.parametrize("name", ["exp_avg", "first.exp_avg", "-1.exp_avg", "1.", ""])
def test_what_the_optimizer_keeps_is_of_a_parameter(name: str) -> None:
    files = manifest()["files"]
    assert read_piece_table({**piece_table({"optimizer/12.exp_avg": spread()}), "files": files}, "here")
    with pytest.raises(BadCheckpoint, match="names no parameter of the optimizer"):
        read_piece_table({**piece_table({f"optimizer/{name}": spread()}), "files": files}, "here")


UNREADABLE: list[Any] = [
    None,
    3,
    {},
    {"dtype": "float32", "shape": [5, 3], "pieces": {"a": "0-5"}},
    {"dtype": "float32", "shape": ["5", 3], "pieces": {}},
    {"dtype": "float32", "shape": [True], "pieces": {}},
    {"dtype": "float32", "shape": 5, "pieces": {}},
    {"dtype": "float32", "shape": [5], "pieces": ["a"]},
]


@pytest.mark.parametrize("row", UNREADABLE, ids=range(len(UNREADABLE)))
def test_a_list_that_cannot_be_read_is_not_trusted(row: Any) -> None:
    with pytest.raises(BadCheckpoint, match="its table of pieces cannot be read"):
        read_piece_table({"format": 2, "pieces": {"weight": row}, "files": {"a": {}}}, "here")


def test_a_list_that_is_not_there_is_not_trusted() -> None:
    with pytest.raises(BadCheckpoint, match="its table of pieces cannot be read"):
        read_piece_table({"format": 2, "files": {}}, "here")


# -- tensors out of pieces --


@pytest.mark.parametrize("store", [Memory, None], ids=["memory", "folder"])
def test_what_is_read_is_what_was_cut(tmp_path: Path, store: Callable[[], Store] | None) -> None:
    held = store() if store else Folder(tmp_path)
    contents = read_contents(held, write_pieces(held, 10))
    assert sorted(contents.weights) == ["ema", "model"]
    found = {f"{model}/{name}": value for model, weights in contents.weights.items() for name, value in weights.items()}
    found |= {f"optimizer/0.{word}": contents.training["optimizer"]["state"][0][word] for word in ("exp_avg", "step")}
    assert found.keys() == WHOLES.keys()
    for key, whole in WHOLES.items():
        assert torch.equal(found[key], whole), key
        assert found[key].dtype == whole.dtype
    assert contents.training["optimizer"]["state"][0]["word"] == "plain"
    assert contents.training["optimizer"]["param_groups"] == [{"params": [0], "lr": 0.1}]
    assert contents.about == {"format": SHARDED, "step": 10, "best_step": None}


def test_what_came_from_pieces_is_written_whole_like_any_other(two: Folder, tmp_path: Path) -> None:
    contents, again = read_contents(two, NEWEST), Folder(tmp_path / "whole")
    about = {key: value for key, value in contents.about.items() if key != "format"}
    again.write(NEWEST, about, contents.writers())
    assert sorted(again.manifest(NEWEST)["files"]) == ["ema.safetensors", "model.safetensors", TRAINING]
    assert torch.equal(read_contents(again, NEWEST).weights["model"]["layer.weight"], WHOLES["model/layer.weight"])


def test_a_block_of_a_piece_is_read_without_the_rest(two: Folder) -> None:
    blocks = FileBlocks(two.folder / NEWEST)
    (first, second), weight = (
        cut_in_two("model/layer.weight", WHOLES["model/layer.weight"])[0].pieces,
        WHOLES["model/layer.weight"],
    )
    assert torch.equal(blocks.block("model/layer.weight", first, (1, 0), (2, 3)), weight[1:3])
    assert torch.equal(blocks.block("model/layer.weight", second, (1, 1), (1, 2)), weight[4:5, 1:3])
    (count,) = cut_in_two("model/count", WHOLES["model/count"])[0].pieces
    assert blocks.block("model/count", count, (), ()).item() == 7


def test_a_block_of_a_file_that_is_not_what_the_manifest_says_is_refused(two: Folder) -> None:
    blocks, piece = (
        FileBlocks(two.folder / NEWEST),
        cut_in_two("model/layer.weight", WHOLES["model/layer.weight"])[0].pieces[0],
    )
    with pytest.raises(BadCheckpoint, match=r"the size of .* differs from the manifest"):
        blocks.block("model/layer.weight", replace(piece, size=(4, 3)), (0, 0), (4, 3))
    with pytest.raises(BadCheckpoint, match="is not a safetensors file"):
        blocks.block("model/nobody", piece, (0, 0), (1, 1))
    with pytest.raises(BadCheckpoint, match=r"training.pt is not a safetensors file"):
        blocks.block("model/layer.weight", replace(piece, file=TRAINING), (0, 0), (1, 1))


def test_a_whole_tensor_is_its_own_only_piece() -> None:
    spreads, blocks = single_pieces(WHOLES), MemoryBlocks(WHOLES)
    for key, whole in WHOLES.items():
        (piece,) = spreads[key].pieces
        assert torch.equal(blocks.block(key, piece, piece.start, piece.size), whole)


def test_a_format_of_numbers_that_torch_does_not_have_is_a_sentence() -> None:
    with pytest.raises(BadCheckpoint, match="does not have: 'load'"):
        assemble_tensors({"model/a": TensorPieces("load", (), ())}, [], "here")


# -- damage --


def assert_passed_over(folder: Folder, file: str) -> None:
    name, contents, troubles = newest_valid(folder, read_contents)
    assert name == BEFORE
    assert contents is not None
    assert len(troubles) == 1
    assert str(folder.folder / NEWEST / file) in troubles[0], troubles[0]
    assert "damaged" in troubles[0] or "missing" in troubles[0]
    assert folder.names() == [BEFORE, NEWEST], "nothing is removed: it may be all that somebody has"


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("share", [0.0, 0.4, 0.99])
def test_a_truncated_file_is_named_and_the_one_before_is_taken(two: Folder, file: str, share: float) -> None:
    path = two.folder / NEWEST / file
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    assert_passed_over(two, file)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_one_flipped_bit_is_named_and_the_one_before_is_taken(two: Folder, file: str, share: float) -> None:
    path = two.folder / NEWEST / file
    data = bytearray(path.read_bytes())
    data[int(len(data) * share)] ^= 4
    path.write_bytes(data)
    assert_passed_over(two, file)


@pytest.mark.parametrize("file", FILES)
def test_a_missing_file_is_named_and_the_one_before_is_taken(two: Folder, file: str) -> None:
    (two.folder / NEWEST / file).unlink()
    assert_passed_over(two, file)


def resealed(folder: Folder, **changes: Any) -> None:
    path = folder.folder / NEWEST / MANIFEST
    path.write_bytes(seal_json({**unseal_json(path.read_bytes(), ""), **changes}))


def test_a_later_format_is_named_and_the_one_before_is_taken(two: Folder) -> None:
    resealed(two, format=SHARDED + 1)
    name, _, (trouble,) = newest_valid(two, read_contents)
    assert name == BEFORE
    assert "has format 3; this trueloop reads up to 2: use a newer trueloop" in trouble


def test_another_way_of_reading_passes_over_the_same(two: Folder) -> None:
    resealed(two, format=9)
    assert newest_valid(two, lambda store, name: store.manifest(name)["step"])[:2] == (BEFORE, 10)


# -- code in a file --


class Attack:
    """Runs when it is unpickled by anybody who trusts it."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.trace}",)


def swapped(folder: Folder, file: str, data: bytes) -> None:
    """Another file, and a manifest that vouches for it: whoever can write there can do that too."""
    manifest, pieces = (
        folder.manifest(NEWEST),
        {each: folder.read(NEWEST, each) for each in folder.manifest(NEWEST)["files"]},
    )
    folder.write(NEWEST, manifest, {each: _bytes(held) for each, held in {**pieces, file: data}.items()})


def _bytes(data: bytes) -> Any:
    return lambda out: out.write(data)


@pytest.mark.parametrize("file", ["model-1-of-2.safetensors", "optimizer-0-of-2.safetensors", TRAINING])
def test_a_pickle_in_the_place_of_a_piece_is_refused_and_nothing_runs(two: Folder, tmp_path: Path, file: str) -> None:
    trace = tmp_path / "it-ran"
    swapped(two, file, pickle.dumps({"state": Attack(trace)}))
    with pytest.raises(BadCheckpoint, match=f"{file} is (not a safetensors file|not safe to read)"):
        read_contents(two, NEWEST)
    assert newest_valid(two, read_contents)[0] == BEFORE
    assert not trace.exists()
    pickle.loads(two.read(NEWEST, file))
    assert trace.exists(), "the attack itself works"


def test_the_metadata_of_torchs_own_format_is_never_looked_at(two: Folder, tmp_path: Path) -> None:
    trace = tmp_path / "it-ran"
    (two.folder / NEWEST / ".metadata").write_bytes(pickle.dumps(Attack(trace)))
    assert newest_valid(two, read_contents)[0] == NEWEST
    assert not trace.exists()


@pytest.mark.parametrize(
    "held",
    [{}, {"layer.weight": torch.zeros(3, 4)}, {"layer.weight": torch.zeros(3, 3, dtype=torch.int64)}],
    ids=["nothing", "another size", "other numbers"],
)
def test_a_piece_that_is_not_what_the_manifest_says_is_refused(two: Folder, held: dict[str, Any]) -> None:
    swapped(two, "ema-0-of-2.safetensors", safetensors.torch.save(held))
    with pytest.raises(BadCheckpoint, match=r"ema-0-of-2.safetensors is invalid: for ema/layer.weight it holds"):
        read_contents(two, NEWEST)


# -- commands --


def test_show_tells_what_the_pieces_make_up(two: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "show", str(two.folder / NEWEST)]) == 0
    said = capsys.readouterr().out
    assert "model: 4 tensors, 22 numbers, in 2 files" in said
    rows = [line.split() for line in said.splitlines()]
    assert ["layer.weight", "5x3", "float32", "15", "2"] in rows
    assert ["count", "scalar", "int64", "1", "1"] in rows
    assert ["one", "1", "float32", "1", "1"] in rows
    assert "model-1-of-2.safetensors" in said


def test_verify_knows_whole_and_damaged_pieces(two: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "verify", str(two.folder)]) == 0
    assert capsys.readouterr().out.count("is valid: 7 files") == 2
    (two.folder / NEWEST / "model-1-of-2.safetensors").unlink()
    assert main(["checkpoint", "verify", str(two.folder)]) == 1
    said = capsys.readouterr().out
    assert "model-1-of-2.safetensors is missing." in said
    assert "1 of 2 damaged" in said


def test_verify_says_when_pieces_do_not_make_up_their_tensors(two: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    pieces = two.manifest(NEWEST)["pieces"]
    del pieces["model/layer.weight"]["pieces"]["model-1-of-2.safetensors"]
    resealed(two, pieces=pieces)
    assert main(["checkpoint", "verify", str(two.folder / NEWEST)]) == 1
    assert "model/layer.weight is not the sum of its pieces" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "model"), [(["--weights", "model"], "model"), ([], "ema")])
def test_convert_writes_one_file_in_one_process(two: Folder, tmp_path: Path, words: list[str], model: str) -> None:
    to = tmp_path / "all.safetensors"
    assert main(["checkpoint", "convert", str(two.folder), "--to", str(to), *words]) == 0
    written = safetensors.torch.load_file(to)
    expected = {group_of(key)[1]: value for key, value in WHOLES.items() if group_of(key)[0] == model}
    assert written.keys() == expected.keys()
    assert all(torch.equal(written[name], value) for name, value in expected.items())


def test_weights_for_another_run_are_read_from_pieces(two: Folder) -> None:
    weights, where = read_weights(two.folder)
    assert torch.equal(weights["layer.weight"], WHOLES["ema/layer.weight"])
    assert where.endswith(f"{NEWEST} (its moving average)")


def test_inspect_shows_the_tensors_that_the_pieces_make_up(two: Folder) -> None:
    sheet = inspect_checkpoint(two.folder)
    titles = [part.title for part in sheet.parts]
    assert "model, sharded" in titles
    assert "training.pt, tensors" in titles


def test_a_whole_checkpoint_is_still_shown_as_its_file(tmp_path: Path) -> None:
    contents, folder = Contents({"step": 1}, {"model": {"weight": torch.zeros(2)}}, {"state": {}}), Folder(tmp_path)
    folder.write(name_of(1), contents.about, contents.writers())
    assert "model.safetensors" in [part.title for part in inspect_checkpoint(tmp_path).parts]


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_numbers_of_another_format_than_the_manifest_names_are_not_turned_into_it(two: Folder) -> None:
    key = "model/layer.weight"
    spread, _ = cut_in_two(key, WHOLES[key])
    blocks, found = FileBlocks(two.folder / NEWEST), {key: torch.zeros(5, 3)}
    load(found, storage_reader=PieceReader({key: spread}, blocks, "here"), no_dist=True)
    assert torch.equal(found[key], WHOLES[key])
    wider = PieceReader({key: replace(spread, dtype="float64")}, blocks, "here")
    with pytest.raises(CheckpointException, match=r"in model-0-of-2.safetensors is torch.float32, the manifest says"):
        load({key: torch.zeros(5, 3, dtype=torch.float64)}, storage_reader=wider, no_dist=True)
