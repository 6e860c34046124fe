"""What is made of raw scores: every task, ties, scores that are no numbers; and which arrays a port lets in."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.export.made import artifact, verification
from trueloop.export.compare import predictions
from trueloop.results.artifact import Artifact, Port, answer_of

CLASSES = ("dark", "grey", "light")
scores = st.floats(-50, 50, width=32)


def answered(task: str, given_: Any, classes: tuple[str, ...] = CLASSES) -> dict[str, Any]:
    return answer_of(artifact(task=task, classes=classes), given_)


# -- the answer is the prediction that the metric counts --


@given(st.lists(scores, min_size=2, max_size=6))
def test_the_class_is_the_one_that_the_metric_counts(row: list[float]) -> None:
    found = predictions("multiclass", torch.tensor([row]))
    assert found is not None
    assert answered("multiclass", row, ())["number"] == int(found[0])
    assert answered("language", [[0.0] * len(row), row], ())["number"] == int(found[0])


@given(scores)
def test_yes_is_what_the_metric_counts_as_yes(score: float) -> None:
    found = predictions("binary", torch.tensor([[score]], dtype=torch.float64))
    assert found is not None
    answer = answered("binary", score, ("no", "yes"))
    if abs(score) > 1e-15:  # below that a half is all that a probability can say
        assert answer["number"] == int(found[0])
    assert answer["class"] == ("no", "yes")[answer["number"]]
    assert 0.5 <= answer["probability"] <= 1.0
    assert answer["yes"] == pytest.approx(answer["probability"] if answer["number"] else 1 - answer["probability"])


@given(st.lists(scores.filter(lambda score: abs(score) > 1e-15), min_size=1, max_size=5))
def test_labels_are_those_that_the_metric_counts(row: list[float]) -> None:
    found = predictions("multilabel", torch.tensor(row))
    assert found is not None
    answer = answered("multilabel", row, tuple(f"label {number}" for number in range(len(row))))
    assert answer["numbers"] == found[0].nonzero().flatten().tolist()
    assert answer["labels"] == [f"label {number}" for number in answer["numbers"]]
    assert all(0 <= chance <= 1 for chance in answer["probabilities"])


@given(st.lists(scores, min_size=2, max_size=6), st.floats(-1e3, 1e3))
def test_what_is_added_to_all_scores_changes_no_probability(row: list[float], more: float) -> None:
    one, other = answered("multiclass", row, ()), answered("multiclass", [score + more for score in row], ())
    assert one["probability"] == pytest.approx(other["probability"], rel=1e-6)
    assert one["probability"] >= 1 / len(row) * (1 - 1e-9)


def test_of_equal_scores_the_first_is_the_answer() -> None:
    assert answered("multiclass", [1.0, 2.0, 2.0])["class"] == "grey"
    assert answered("multiclass", [0.0, 0.0, 0.0])["probability"] == pytest.approx(1 / 3)


def test_a_class_that_is_ruled_out_has_no_chance() -> None:
    answer = answered("multiclass", [-math.inf, 0.0, 0.0])
    assert answer["probabilities"] == {"dark": 0.0, "grey": 0.5, "light": 0.5}


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_scores_that_are_no_numbers_are_no_answer_wherever_they_stand(place: int, wrong: float) -> None:
    row = [0.0, 1.0, 0.5]
    row[place] = wrong
    assert answered("multiclass", row).keys() == {"scores"}


def test_scores_that_are_all_ruled_out_are_no_answer() -> None:
    assert answered("multiclass", [-math.inf] * 3) == {"scores": [-math.inf] * 3}


# -- names --


@pytest.mark.parametrize("classes", [(), ("one",), ("a", "b", "c", "d")])
def test_names_of_another_number_are_left_out(classes: tuple[str, ...]) -> None:
    answer = answered("multiclass", [0.0, 2.0, 1.0], classes)
    assert answer.keys() == {"number", "probability"}
    assert answer["number"] == 1


@pytest.mark.parametrize("classes", [(), ("one",), ("a", "b", "c", "d")])
def test_labels_of_another_number_are_left_out(classes: tuple[str, ...]) -> None:
    answer = answered("multilabel", [1.0, -1.0, 3.0], classes)
    assert answer["numbers"] == [0, 2]
    assert "labels" not in answer


@pytest.mark.parametrize("classes", [(), ("one",), CLASSES])
def test_yes_and_no_have_names_only_if_there_are_two(classes: tuple[str, ...]) -> None:
    assert "class" not in answered("binary", 2.0, classes)
    assert answered("binary", 2.0, classes)["number"] == 1


# -- shapes --


@pytest.mark.parametrize("given_", [2.0, [2.0], [[2.0]], ([2.0],)])
def test_one_score_may_be_wrapped(given_: Any) -> None:
    assert answered("binary", given_)["yes"] == pytest.approx(1 / (1 + math.exp(-2)))


def test_two_scores_are_not_one() -> None:
    with pytest.raises(ValueError, match="too many values"):
        answered("binary", [1.0, 2.0])


@pytest.mark.parametrize(("given_", "value"), [(3, 3.0), ([[1.5]], 1.5), ([1.0, 2.0], [1.0, 2.0]), ([], [])])
def test_quantities_keep_their_shape_unless_they_are_one(given_: Any, value: Any) -> None:
    assert answered("regression", given_, ()) == {"value": value}


@given(st.floats(-1e300, 1e300))
def test_chances_of_any_score_are_chances(score: float) -> None:
    assert 0 <= answered("binary", score)["yes"] <= 1
    assert answered("binary", score)["yes"] + answered("binary", -score)["yes"] == pytest.approx(1)


@given(st.sampled_from(["multiclass", "multilabel"]), st.lists(scores, min_size=3, max_size=3))
def test_an_answer_can_be_sent_as_json(task: str, row: list[float]) -> None:
    assert json.loads(json.dumps(answered(task, row), allow_nan=False)) == answered(task, row)


# -- what goes in --


@given(
    st.lists(st.tuples(st.none() | st.integers(1, 5), st.none() | st.integers(1, 5)), min_size=1, max_size=4),
    st.lists(st.integers(0, 6), min_size=1, max_size=4),
)
def test_a_port_takes_exactly_what_it_says(dimensions: list[tuple[int | None, int | None]], shape: list[int]) -> None:
    port = Port(
        "input",
        "uint8",
        tuple(size for size, _ in dimensions),
        tuple(None if size else most for size, most in dimensions),
    )
    fits = len(shape) == len(dimensions) and all(
        1 <= size <= (most or size) if due is None else size == due
        for size, (due, most) in zip(shape, dimensions, strict=False)
    )
    assert (port.refusal(shape) == "") is fits
    assert port.refusal(shape) == "" or "input" in port.refusal(shape)


def test_limits_are_known_or_not() -> None:
    assert Port("a", "uint8", (None, 3)).limit(0) is None
    assert Port("a", "uint8", (None, 3), (64, None)).limit(0) == 64
    assert Port("a", "uint8", (None, 3), (64, None)).refusal([65, 3]) == "dimension 0 of a must be 1 to 64, not 65"


# -- back from JSON --


@given(
    st.lists(st.text(max_size=5), max_size=4),
    st.dictionaries(st.text(min_size=1, max_size=5), st.floats(0, 1), max_size=3),
    st.booleans(),
)
def test_any_description_comes_back(classes: list[str], metrics: dict[str, float], verified: bool) -> None:
    checked = verification(metrics={name: (value, value / 2) for name, value in metrics.items()}, first_differing="x")
    made = artifact(classes=tuple(classes), verification=checked if verified else None)
    assert Artifact.of(json.loads(json.dumps(made.plain(), sort_keys=True)), made.folder) == made


@pytest.mark.parametrize("field", ["files", "classes", "notes", "outputs", "verification"])
@pytest.mark.parametrize("rubbish", [5, [5], "x"])
def test_rubbish_in_a_description_is_one_of_the_errors_that_are_named(field: str, rubbish: Any) -> None:
    told = replace(artifact(), verification=verification()).plain()
    told[field] = rubbish
    try:
        Artifact.of(told, Path())
    except (KeyError, TypeError, ValueError, AttributeError):
        return
    assert field in ("classes", "notes"), "words may be anything"


@pytest.mark.parametrize(("task", "row"), [("binary", [math.nan]), ("multilabel", [0.3, math.nan])])
def test_of_a_score_that_is_no_number_nothing_is_claimed(task: str, row: list[float]) -> None:
    assert list(answered(task, row)) == ["scores"]
