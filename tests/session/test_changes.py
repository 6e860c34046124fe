"""A run goes on only with the recipe, code and data that it was trained with; or with changes that were accepted."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import in_child
from trueloop.cli.main import main

RECIPE = """
from functools import partial
import torch
from torch import nn
from torch.utils.data import TensorDataset, random_split
from trueloop import Recipe
from trueloop.data.dataset import Dataset
from trueloop.data.source import Splits

HIDDEN = 8

def activation(x):
    return torch.tanh(x)

class Net(nn.Module):
    def __init__(self, hidden=HIDDEN):
        super().__init__()
        self.first, self.last = nn.Linear(6, hidden), nn.Linear(hidden, 2)
    def forward(self, x):
        return self.last(activation(self.first(x)))

def data(request):
    draws = torch.Generator().manual_seed(5)
    rows, labels = torch.randn(120, 6, generator=draws), torch.randint(2, (120,), generator=draws)
    train, valid = random_split(TensorDataset(rows, labels), [80, 40])
    return Splits(Dataset(train), Dataset(valid))

def loss(output, targets):
    return nn.functional.cross_entropy(output, targets, reduction="none")

def hit(output, targets):
    return output.argmax(1) == targets

class Count:
    def __init__(self, step):
        self.step = step
    def reset(self):
        self.seen = 0
    def update(self, output, targets):
        self.seen += self.step
    def compute(self):
        return self.seen

recipe = Recipe("mine", model=Net, data=data, loss=loss, epochs=1, batch=16, trackers=(), device="cpu",
    metrics={"hit": hit, "count": Count(2)}, metric="hit")
"""


def trueloop(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and what was printed, of a process with its own random states."""

    def work() -> tuple[int, str]:
        os.chdir(folder)
        printed = (folder / "printed.txt").open("w", encoding="utf-8")
        sys.stdout = sys.stderr = printed
        sys.argv = ["trueloop", *arguments]
        try:
            code = main(list(arguments))
        except SystemExit as left:
            code = int(left.code or 0)
        printed.flush()
        return code, (folder / "printed.txt").read_text(encoding="utf-8")

    answer: tuple[int, str] = in_child(work)
    return answer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a run of one epoch."""
    (tmp_path / "mine.py").write_text(RECIPE, encoding="utf-8")
    code, printed = trueloop(tmp_path, "train", "mine.py", "--name", "a")
    assert code == 0, printed
    return tmp_path


def edit(folder: Path, before: str, after: str) -> None:
    text = (folder / "mine.py").read_text(encoding="utf-8")
    assert before in text
    (folder / "mine.py").write_text(text.replace(before, after), encoding="utf-8")


def about(folder: Path, name: str = "a") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "runs" / name / "run.json").read_text(encoding="utf-8"))
    return found


LONGER = ("resume", "runs/a", "--set", "epochs=2")


def test_a_random_split_is_the_same_in_every_process(folder: Path) -> None:
    trueloop(folder, "train", "mine.py", "--name", "b")
    trueloop(folder, "train", "mine.py", "--name", "c", "--set", "seed=1")
    splits = [about(folder, name)["data_fingerprint"] for name in "abc"]
    assert splits[0] == splits[1]
    assert splits[0]["valid"]["digest"] != splits[2]["valid"]["digest"]
    code, printed = trueloop(folder, "resume", "a", "--set", "epochs=2")  # by its name
    assert code == 0, printed


def test_a_run_does_not_go_on_with_another_split(folder: Path) -> None:
    edit(folder, "[80, 40])", "[80, 40], generator=torch.Generator().manual_seed(9))")
    found = about(folder)
    found["code"] = None  # as if only the files had changed
    (folder / "runs" / "a" / "run.json").write_text(json.dumps(found), encoding="utf-8")
    code, printed = trueloop(folder, *LONGER)
    assert code == 4
    assert "different data (train: 80 samples as before, but different ones; valid: 40 samples" in printed
    assert "Nothing was run" in printed


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ('reduction="none")', 'reduction="none") * 3', "mine.loss"),
        ("torch.tanh(x)", "torch.relu(x)", "mine.activation"),
        ("manual_seed(5)", "manual_seed(6)", "mine.data"),
        ("HIDDEN = 8", "HIDDEN = 9", "mine.Net.__init__, default 0"),
        ("output.argmax(1) ==", "output.argmin(1) ==", "mine.hit"),
        ("Count(2)", "Count(3)", "metrics['count']"),
        ("self.seen += self.step", "self.seen += 1", "mine.Count"),
    ],
)
def test_changed_code_is_shown_and_stops_the_resume(folder: Path, before: str, after: str, name: str) -> None:
    edit(folder, before, after)
    code, printed = trueloop(folder, *LONGER)
    assert code == 4
    assert "was trained with different code" in printed
    assert name in printed
    assert about(folder)["status"] == "finished"


def test_comments_and_other_functions_are_not_the_code_of_a_run(folder: Path) -> None:
    edit(folder, "def activation(x):", "def unused():\n    return 1\n\ndef activation(x):  # a comment\n    'Words.'")
    code, printed = trueloop(folder, *LONGER)
    assert code == 0, printed


def test_accepted_changes_are_recorded(folder: Path) -> None:
    edit(folder, "torch.tanh(x)", "torch.relu(x)")
    code, printed = trueloop(folder, *LONGER, "--set", "lr=0.01", "--accept-changes")
    assert code == 0, printed
    (change,) = about(folder)["changes"]
    assert change["step"] == 5
    assert change["recipe"] == {"lr": [0.001, 0.01]}
    assert "+    return torch.relu(x)" in change["code"]["mine.activation"]
    code, printed = trueloop(folder, "resume", "runs/a", "--set", "epochs=3")
    assert code == 0, printed
    assert len(about(folder)["changes"]) == 1


def test_what_would_change_the_order_of_the_samples_is_refused_even_then(folder: Path) -> None:
    code, printed = trueloop(folder, *LONGER, "--set", "seed=8", "--accept-changes")
    assert code == 4
    assert "another seed: the data would be split and ordered again" in printed


def test_another_batch_size_is_accepted_recorded_and_kept_by_later_resumes(folder: Path) -> None:
    """80 samples: 5 steps of 16, then epochs of 10 steps of 8."""
    assert "lr: " not in trueloop(folder, *LONGER, "--set", "batch=8")[1]
    code, printed = trueloop(folder, *LONGER, "--set", "batch=8", "--accept-changes")
    assert code == 0, printed
    assert "batch 16 before step 5, 8 from there on" in printed
    assert (about(folder)["step"], about(folder)["changes"][0]["recipe"]) == (15, {"batch": [16, 8]})
    code, printed = trueloop(folder, "resume", "runs/a", "--set", "epochs=3")
    assert code == 0, printed
    assert about(folder)["step"] == 25
    assert trueloop(folder, "resume", "runs/a")[0] == 4, "it has finished"


def test_what_does_not_change_the_numbers_may_be_set(folder: Path) -> None:
    code, printed = trueloop(folder, *LONGER, "--set", "accumulate=2", "--set", "threads=1", "--set", "prefetch=4")
    assert code == 0, printed


def test_partials_with_different_values_are_different_recipes(folder: Path) -> None:
    edit(folder, "model=Net", "model=partial(Net, hidden=4)")
    trueloop(folder, "train", "mine.py", "--name", "b")
    edit(folder, "hidden=4", "hidden=5")
    trueloop(folder, "train", "mine.py", "--name", "c")
    assert about(folder, "b")["recipe"]["model"] == "mine.Net(hidden=4)"
    code, printed = trueloop(folder, "compare", "b", "c")
    assert code == 0
    assert "mine.Net(hidden=5)" in printed


def test_compare_shows_code_that_differs(folder: Path) -> None:
    edit(folder, "torch.tanh(x)", "torch.relu(x)")
    trueloop(folder, "train", "mine.py", "--name", "b")
    code, printed = trueloop(folder, "compare", "a", "b")
    assert code == 0
    assert "-    return torch.tanh(x)" in printed
    assert "+    return torch.relu(x)" in printed


def test_deleted_checkpoints_are_an_error(folder: Path) -> None:
    shutil.rmtree(folder / "runs" / "a" / "checkpoints")
    code, printed = trueloop(folder, *LONGER)
    assert code != 0
    assert "this run had saved one at step 5. Nothing was run" in printed


def test_a_moved_recipe_can_be_named(folder: Path) -> None:
    (folder / "mine.py").rename(folder / "mine2.py")
    code, printed = trueloop(folder, *LONGER)
    assert code == 4
    assert "--recipe FILE" in printed
    (folder / "kept").mkdir()
    (folder / "mine2.py").rename(folder / "kept" / "mine.py")
    code, printed = trueloop(folder, *LONGER, "--recipe", "kept/mine.py")
    assert code == 0, printed
    assert about(folder)["origin"]["recipe"] == "kept/mine.py"


def test_an_early_stopped_run_goes_on_with_more_patience(folder: Path) -> None:
    settings = ("--set", "patience=1", "--set", "epochs=30", "--set", "lr=1e-9")
    trueloop(folder, "train", "mine.py", "--name", "b", *settings)
    assert about(folder, "b")["status"] == "early-stopped"
    code, printed = trueloop(folder, "resume", "runs/b")
    assert code == 4
    assert "--set patience=N --accept-changes" in printed
    steps = about(folder, "b")["step"]
    code, printed = trueloop(folder, "resume", "runs/b", "--set", "patience=4", "--accept-changes")
    assert code == 0, printed
    assert about(folder, "b")["step"] > steps


def test_a_lambda_in_the_recipe_is_its_own_code_and_not_the_fields_beside_it(folder: Path) -> None:
    edit(folder, "loss=loss, epochs=1", "loss=lambda output, targets: loss(output, targets), epochs=1, log_every=50")
    trueloop(folder, "train", "mine.py", "--name", "b")
    edit(folder, "log_every=50", "log_every=7")
    code, printed = trueloop(folder, "resume", "b", "--set", "epochs=2")
    assert code == 0, printed
    edit(folder, "loss(output, targets), epochs", "2 * loss(output, targets), epochs")
    code, printed = trueloop(folder, "resume", "b", "--set", "epochs=3")
    assert code == 4
    assert "+lambda output, targets: 2 * loss(output, targets)" in printed


@pytest.mark.parametrize(("field", "value"), [("code", ["x"]), ("code", {"mine.loss": 5}), ("data_fingerprint", 3)])
def test_a_damaged_record_is_a_sentence(folder: Path, field: str, value: object) -> None:
    found = {**about(folder), field: value}
    (folder / "runs" / "a" / "run.json").write_text(json.dumps(found), encoding="utf-8")
    code, printed = trueloop(folder, *LONGER)
    assert code == 4
    assert "run.json is damaged" in printed


def test_values_that_cannot_be_read_end_no_run(folder: Path) -> None:
    edit(
        folder,
        "def activation(x):",
        """class Odd:
    @property
    def __dict__(self):
        raise RuntimeError
    def __call__(self, x):
        return x
ODD, LOOP, EMPTY = Odd(), [], torch.empty(3, device="meta")
LOOP.append(LOOP)
def activation(x):
    assert ODD is not None and LOOP and EMPTY is not None""",
    )
    for arguments in (("train", "mine.py", "--name", "b"), ("resume", "b", "--set", "epochs=2")):
        code, printed = trueloop(folder, *arguments)
        assert code == 0, printed
