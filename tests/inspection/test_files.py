"""Files of tensors: what they hold is told, what is unsafe is never run, what is damaged is one sentence."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from tests.engine.small import SMALL
from trueloop.errors import BadCheckpoint
from trueloop.inspection.checkpoint import inspect_checkpoint
from trueloop.inspection.files import open_file
from trueloop.inspection.tensor import inspect_tensor, split_key
from trueloop.results.document import Document, Facts, Table
from trueloop.session.train import train


def table(sheet: Document, title: str) -> dict[str, dict[str, Any]]:
    part = next(part for part in sheet.parts if isinstance(part, Table) and part.title == title)
    names = [column.name for column in part.columns]
    return {row[0]: dict(zip(names, row, strict=True)) for row in part.rows}


def facts(sheet: Document, number: int = 0) -> dict[str, Any]:
    part = [part for part in sheet.parts if isinstance(part, Facts)][number]
    return dict(part.values)


# -- never run --


class Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("how", ["torch", "legacy", "pickle", "inside"])
@pytest.mark.parametrize("what", ["checkpoint", "tensor"])
def test_a_malicious_pickle_is_refused_and_nothing_in_it_is_run(tmp_path: Path, how: str, what: str) -> None:
    sprung, file = tmp_path / "sprung", tmp_path / "weights.pt"
    match how:
        case "torch":
            torch.save(Trap(sprung), file)
        case "legacy":
            torch.save(Trap(sprung), file, _use_new_zipfile_serialization=False)
        case "pickle":
            file.write_bytes(pickle.dumps(Trap(sprung)))
        case _:
            torch.save({"weight": torch.zeros(2), "more": [{"deep": Trap(sprung)}]}, file)
    with pytest.raises(BadCheckpoint) as refused:
        inspect_checkpoint(file) if what == "checkpoint" else inspect_tensor(f"{file}:weight")
    assert not sprung.exists()
    assert "\n" not in str(refused.value)
    if how != "pickle":
        assert "mkdir" in str(refused.value)
        assert "no code was executed" in str(refused.value)
    with open(file, "rb") as opened:  # and it was a real trap
        (torch.load(opened, weights_only=False) if how != "pickle" else pickle.load(opened))
    assert sprung.exists()


def test_a_whole_pickled_model_is_refused_with_what_to_save_instead(tmp_path: Path) -> None:
    torch.save(nn.Linear(2, 2), tmp_path / "model.pt")
    with pytest.raises(BadCheckpoint, match=r"torch\.nn\.modules\.linear\.Linear.*state_dict"):
        inspect_checkpoint(tmp_path / "model.pt")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_program_is_refused(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.trace(nn.Linear(2, 2), torch.zeros(1, 2)), str(tmp_path / "model.pt"))  # type: ignore[no-untyped-call]
    with pytest.raises(BadCheckpoint, match="TorchScript"):
        inspect_checkpoint(tmp_path / "model.pt")


def test_objects_of_numpy_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([Trap(tmp_path / "sprung")], dtype=object), allow_pickle=True)
    with pytest.raises(BadCheckpoint, match="holds Python objects"):
        inspect_tensor(str(tmp_path / "a.npy"))
    assert not (tmp_path / "sprung").exists()


# -- one sentence --


@pytest.mark.parametrize("name", ["a.pt", "a.safetensors", "a.npy", "a.npz", "a.ckpt"])
@pytest.mark.parametrize("data", [b"", b"no tensors at all", b"PK\x03\x04" + bytes(40), b"\x80\x02."])
def test_damaged_files_are_one_sentence(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(BadCheckpoint) as refused:
        inspect_checkpoint(tmp_path / name)
    assert str(tmp_path / name) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_was_cut_short_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "a.pt"
    torch.save({"weight": torch.zeros(1000)}, file)
    file.write_bytes(file.read_bytes()[:2000])
    with pytest.raises(BadCheckpoint, match="is damaged"):
        inspect_checkpoint(file)


def test_what_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(2), "bias": torch.zeros(2), "step": 3}, tmp_path / "model.pt")
    (tmp_path / "notes.md").touch()
    for word, said in {
        "modle.pt": "Did you mean model.pt?",
        "notes.md": "unknown file type",
        "": "is a folder",
        "model.pt": "Which of the 2 tensors",
        "model.pt:wieght": "Did you mean weight?",
        "model.pt:step": "a plain value, not a tensor",
    }.items():
        with pytest.raises(BadCheckpoint) as refused:
            inspect_tensor(str(tmp_path / word))
        assert said in str(refused.value)


# -- what they hold --


def test_a_checkpoint_of_ours_is_told_with_its_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = train(SMALL, hooks=[], hand_on_signals=False)
    sheet = inspect_checkpoint(done.folder)
    assert facts(sheet)["step"] == 12
    assert table(sheet, "model.safetensors")["0.weight"]["shape"] == (8, 6)
    assert "optimizer.state.0.exp_avg" in table(sheet, "training.pt, tensors")
    assert table(sheet, "training.pt, values")["state.step"]["value"] == "12"
    assert sheet.notes == ()
    weights = next((done.folder / "checkpoints").glob("*/model.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(BadCheckpoint, match="is damaged"):
        inspect_checkpoint(weights.parent)


@pytest.mark.parametrize(("prefix", "whose"), [("module.", "DataParallel"), ("_orig_mod.", r"torch\.compile")])
def test_a_wrappers_prefix_is_named(tmp_path: Path, prefix: str, whose: str) -> None:
    torch.save({f"{prefix}{name}": value for name, value in nn.Linear(2, 2).state_dict().items()}, tmp_path / "a.pt")
    (note,) = inspect_checkpoint(tmp_path / "a.pt").notes
    assert f"Every name begins with `{prefix}`" in note
    assert whose.replace("\\", "") in note


def test_ties_and_numbers_that_are_none_are_counted(tmp_path: Path) -> None:
    shared = torch.tensor([1.0, float("nan"), float("inf"), float("-inf")])
    torch.save(
        {"state_dict": {"a": shared, "b": shared, "half": torch.zeros(2).half()}, "epoch": 3}, tmp_path / "a.pth"
    )
    sheet = inspect_checkpoint(tmp_path / "a.pth")
    rows = table(sheet, "Tensors")
    assert rows["state_dict.a"]["tied with"] == ("state_dict.b",)
    assert (rows["state_dict.a"]["nan"], rows["state_dict.a"]["inf"]) == (1, 2)
    assert (rows["state_dict.half"]["nan"], rows["state_dict.half"]["tied with"]) == (None, ())
    assert table(sheet, "Other values")["epoch"]["value"] == "3"
    assert "state_dict.a holds 1 NaN and 2 Inf, and 1 more" in sheet.notes[0]
    assert "several floating-point dtypes" in sheet.notes[1]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.bool, torch.complex64, torch.int8])
def test_every_format_can_be_told(tmp_path: Path, dtype: torch.dtype) -> None:
    torch.save(torch.ones(3).to(dtype), tmp_path / "a.pt")
    sheet = inspect_tensor(str(tmp_path / "a.pt"))
    assert facts(sheet, 1)["max"] == 1.0
    assert facts(sheet)["dtype"] == str(dtype).removeprefix("torch.")


# -- one tensor --


@pytest.fixture
def views(tmp_path: Path) -> Path:
    whole = torch.arange(12.0).reshape(3, 4)
    tensors = {
        "whole": whole,
        "turned": whole.t(),
        "row": whole[1],
        "last": whole[2],
        "same": whole[1],
        "spread": torch.ones(1).expand(5),
    }
    torch.save(tensors, tmp_path / "views.pt")
    return tmp_path / "views.pt"


def test_a_view_says_what_it_is_a_view_of(views: Path) -> None:
    sheet = inspect_tensor(f"{views}:row")
    told = facts(sheet)
    assert (told["shape"], told["stride"], told["storage offset"]) == ((4,), "(1,) elements", "4 elements")
    assert told["view or copy"] == "a view: 16 of the 48 bytes of its storage, from byte 16 on"
    shared = table(sheet, "In the same storage")
    assert shared["same"]["overlap"] == "the same elements: tied"
    assert shared["whole"]["overlap"] == "the spans overlap"
    assert shared["last"]["overlap"] == "a different part"
    assert "spread" not in shared
    assert any("save `tensor.clone()`" in note for note in sheet.notes)


@pytest.mark.parametrize(
    ("key", "contiguous", "view"),
    [
        ("whole", "yes", "owns its complete storage"),
        ("turned", "no: transposed", "in a different order"),
        ("spread", "no", "stride 0"),
    ],
)
def test_order_in_memory(views: Path, key: str, contiguous: str, view: str) -> None:
    told = facts(inspect_tensor(f"{views}:{key}"))
    assert told["contiguous"] == contiguous
    assert view in told["view or copy"]


def test_the_numbers_and_their_histogram(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.asfortranarray(np.array([[0.0, 1.0, np.nan], [2.0, 3.0, np.inf]])))
    sheet = inspect_tensor(str(tmp_path / "a.npy"))
    assert facts(sheet)["stride"] == "(1, 2) elements"
    told = facts(sheet, 1)
    assert (told["min"], told["max"], told["mean"], told["nan"], told["inf"], told["zeros"]) == (0.0, 3.0, 1.5, 1, 1, 1)
    bars = sheet.parts[-1]
    assert sum(getattr(bars, "values", ())) == 4


def test_a_safetensors_file_keeps_no_views(tmp_path: Path) -> None:
    safetensors.torch.save_file({"w": torch.tensor([1, 2, 2])}, str(tmp_path / "a.safetensors"))
    sheet = inspect_tensor(str(tmp_path / "a.safetensors"))
    assert "stores no views" in sheet.notes[0]
    assert getattr(sheet.parts[-1], "labels", ()) == ("1", "2")


def test_empty_and_scalar_tensors_can_be_told(tmp_path: Path) -> None:
    torch.save({"none": torch.zeros(0, 3), "one": torch.tensor(4.0)}, tmp_path / "a.pt")
    assert facts(inspect_tensor(f"{tmp_path}/a.pt:none"), 1)["mean"] is None
    assert facts(inspect_tensor(f"{tmp_path}/a.pt:one"), 1)["mean"] == 4.0


def test_a_colon_in_a_files_name_is_no_key(tmp_path: Path) -> None:
    odd = tmp_path / "a:b.pt"
    torch.save(torch.zeros(2), odd)
    assert split_key(str(odd)) == (odd, None)
    assert split_key(f"{odd}:x") == (odd, "x")
    assert list(open_file(odd).tensors) == ["tensor"]
