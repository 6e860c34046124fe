"""The words that a recipe is run again with, and the first_samples samples that a proof takes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from tests.claims.subjects import recipe
from trueloop.claims.repeat_runs import finding_place, short_run_words, with_settings
from trueloop.claims.subject import RecipeSubject
from trueloop.claims.training_step import first_samples, select_samples
from trueloop.data.source import Batch
from trueloop.recipe.recipe import DataRequest


@pytest.mark.parametrize(
    ("words", "settings", "made"),
    [
        (("digits",), {}, ("digits",)),
        (("digits",), {"steps": 4}, ("digits", "--set", "steps=4")),
        (("digits", "--set", "lr=0.1"), {"lr": 0.2}, ("digits", "--set", "lr=0.2")),
        (
            ("digits", "--set", "log-every=9", "--data", "d"),
            {"log_every": 1},
            ("digits", "--data", "d", "--set", "log_every=1"),
        ),
        (("digits", "--set", "epochs=9"), {"epochs": None, "steps": 3}, ("digits", "--set", "steps=3")),
        (("tabular", "t.csv", "--target", "y"), {"lr": 1}, ("tabular", "t.csv", "--target", "y", "--set", "lr=1")),
    ],
)
def test_settings_take_the_place_of_what_was_said_before(
    words: tuple[str, ...], settings: dict[str, object], made: tuple[str, ...]
) -> None:
    assert with_settings(words, settings) == made


def test_a_short_run_is_told_to_nobody_and_never_ended_early(tmp_path: Path) -> None:
    subject = RecipeSubject(recipe(), DataRequest(), ("mine.py", "--set", "patience=3"), tmp_path)
    words = short_run_words(subject, 8, save_every=2)
    settings = dict(word.split("=") for word in words if "=" in word)
    assert settings == {"steps": "8", "log_every": "1", "trackers": "none", "patience": "none", "save_every": "2"}


def test_a_warm_up_that_is_longer_than_the_run_is_shortened(tmp_path: Path) -> None:
    subject = RecipeSubject(recipe(warmup=100), DataRequest(), ("mine.py",), tmp_path)
    assert "warmup=2" in short_run_words(subject, 8)
    assert not any(
        word.startswith("warmup")
        for word in short_run_words(RecipeSubject(recipe(warmup=3), DataRequest(), (), tmp_path), 8)
    )


def test_a_findings_line() -> None:
    place = finding_place({"path": "train.py", "line": 7})
    assert place is not None
    assert place.path.endswith("train.py")
    assert place.line == 7
    assert finding_place({"path": None, "line": None}) is None


class Pair(NamedTuple):
    image: Tensor
    scale: Tensor


def test_few_takes_the_same_samples_of_all_that_has_rows() -> None:
    inputs = {
        "tokens": torch.arange(12).reshape(6, 2),
        "mask": torch.ones(2),
        "pair": Pair(torch.arange(6), torch.tensor(3.0)),
        "name": "x",
    }
    made = first_samples(Batch(inputs, torch.arange(6)), 2)
    assert made.inputs["tokens"].tolist() == [[0, 1], [2, 3]]
    assert made.inputs["mask"].shape == (2,)
    assert made.inputs["pair"].image.tolist() == [0, 1]
    assert isinstance(made.inputs["pair"], Pair)
    assert made.inputs["pair"].scale == 3
    assert made.inputs["name"] == "x"
    assert made.targets.tolist() == [0, 1]


def test_few_of_a_small_batch_is_all_of_it() -> None:
    assert first_samples(Batch(torch.zeros(3, 2), torch.zeros(3)), 8).inputs.shape == (3, 2)


def test_some_takes_rows_in_the_order_that_is_asked_for() -> None:
    assert select_samples([torch.arange(4), (torch.arange(4) * 2,)], (3, 1), 4)[1][0].tolist() == [6, 2]
