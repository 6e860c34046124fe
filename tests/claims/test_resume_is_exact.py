"""A killed run that is resumed ends with the same bits: recipes that keep a state to themselves, and a healthy one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.claims.subjects import try_recipe
from trueloop.claims.catalogue import claims_named
from trueloop.claims.kill_and_resume import last_step
from trueloop.claims.resume_is_exact import AUGMENT, DATA, MODEL, SPLIT, _cause
from trueloop.claims.subject import RecipeSubject
from trueloop.recipe.recipe import DataRequest
from trueloop.recipes.catalogue import find_recipe
from trueloop.results.proof import Proof

NAME = "resume-is-exact"

RECIPE = """\
import torch
from torch import nn
from trueloop.data.dataset import Dataset
from trueloop.data.source import Facts, Splits
from trueloop.recipe.recipe import Recipe


class Rows:
    def __init__(self):
        self.asked = 0

    def __len__(self):
        return 96

    def __getitem__(self, number):
        self.asked += 1
        row = torch.full((4,), number / 96)
        return {sample}, number % 3


def augment(inputs, draws):
    augment.calls += 1
    return {augmented}


augment.calls = 0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.seen = 0.0

    def forward(self, x):
        self.seen += self.training
        return {answer}


recipe = Recipe(
    name="blobs", model=Net, data=lambda _: Splits(Dataset(Rows()), Dataset(Rows()), facts=Facts(classes=("a", "b", "c")), augment=augment),
    epochs=2, batch=16, lr=0.01, device="cpu", trackers=(),
)
"""  # noqa: E501
HEALTHY = {
    "sample": "row + torch.rand(4)",
    "augmented": "inputs + torch.rand(inputs.shape, generator=draws)",
    "answer": "self.head(x)",
}


def subject(folder: Path, name: str, **planted: str) -> RecipeSubject:
    file = folder / f"{name}.py"
    file.write_text(RECIPE.format(**{**HEALTHY, **planted}), encoding="utf-8")
    return RecipeSubject(find_recipe(str(file), {}), DataRequest(), (str(file),), folder)


def proved(folder: Path, name: str, **planted: str) -> Proof:
    (claim,) = claims_named([NAME])
    return claim.try_recipe(subject(folder, name, **planted))


@pytest.mark.long  # three fresh processes each: one of these tests is enough for every day
def test_an_augmentation_that_counts_how_often_it_was_asked(tmp_path: Path) -> None:
    proof = proved(tmp_path, "counting_calls", augmented="inputs + augment.calls / 100")
    assert proof.result == "fails"
    killed, first = int(str(proof.evidence["killed_at"])), proof.evidence["first_row"]
    assert isinstance(first, dict)
    assert 4 < int(first["step"]) <= killed + 2, f"the first step after a checkpoint, not {first}"
    assert proof.causes[0] == AUGMENT
    assert proof.place is not None
    assert (Path(proof.place.path).name, proof.place.line) == ("counting_calls.py", 21)
    assert f"killed at step {killed} of 30" in proof.measured


@pytest.mark.long
def test_a_healthy_recipe(tmp_path: Path) -> None:
    proof = proved(tmp_path, "healthy_rows")
    assert proof.result == "holds", proof.measured
    assert 4 <= int(str(proof.evidence["killed_at"])) < 30


def test_data_that_differ_from_process_to_process(tmp_path: Path) -> None:
    proof = proved(tmp_path, "hashed_words", sample="row + hash('a') % 97")
    assert proof.result == "fails"
    assert "found different data (train: 96 samples as before, but different ones" in proof.measured
    assert proof.causes[0] == SPLIT


@pytest.mark.parametrize(
    ("planted", "value", "cause", "line"),
    [
        ("sample", "row + self.asked / 100", DATA, 8),
        ("answer", "self.head(x) * self.seen", MODEL, 29),
    ],
)
def test_other_parts_that_keep_a_state_are_told_apart(
    tmp_path: Path, planted: str, value: str, cause: object, line: int
) -> None:
    blamed, place = _cause(subject(tmp_path, f"state_in_{planted}", **{planted: value}))
    assert blamed is cause
    assert place is not None
    assert place.line == line


def test_nobody_is_blamed_where_nothing_is_kept(tmp_path: Path) -> None:
    assert _cause(subject(tmp_path, "nothing_kept")) == (None, None)


def test_a_recipe_made_in_python_cannot_be_tried(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path)
    assert proof.result == "unproved"
    assert "trueloop probe" in proof.measured


def test_a_row_that_is_half_written_is_no_step(tmp_path: Path) -> None:
    assert last_step(tmp_path) == 0
    (tmp_path / "metrics.jsonl").write_text('{"kind": "train", "step": 3}\n{"kind": "train", "st', encoding="utf-8")
    assert last_step(tmp_path) == 3
