"""CARD.md says for people what artifact.json says for machines, and leaves open what only the owner can say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.export.made import artifact, verification
from trueloop.export.card import card_of
from trueloop.results.artifact import Port

RUN = {
    "id": "shades",
    "step": 120,
    "weights": "ema",
    "recipe": {"model": "mine.Net"},
    "metrics": {"metric": "accuracy", "best": 0.9125, "best_step": 100, "test": {"accuracy": 0.9, "loss": 0.25}},
    "data": ["60 pictures to learn from, 60 to validate"],
    "readiness": "ready with risks",
}


def _card(**fields: Any) -> str:
    return card_of(artifact(**{"run": RUN, "verification": verification(), **fields}))


@pytest.mark.parametrize(
    "line",
    [
        "# shades, as onnx",
        "(run shades, step 120, EMA of the weights)",
        "Model: `mine.Net`.",
        "Runtime: no-such-runtime 1.2.3",
        "- 60 pictures to learn from, 60 to validate",
        "- 3 classes: dark, grey, light",
        "- best validation accuracy of the run: 0.9125 at step 100",
        "- test: accuracy 0.9, loss 0.25",
        "- readiness (`trueloop ready`): ready with risks",
        "on 50 valid samples in batches of 1, 2, 7: largest difference 2e-06 (tolerance 0.0001), 0 different "
        "predictions, 0 ties",
        "- accuracy on these samples: 0.5 (model), 0.5 (exported)",
        "| in | input | uint8 | any x 1 x 3 x 4 |",
        "| out | output | float32 | any x 3 |",
        "is part of the program: pass raw samples.",
        "- kind: image",
        "- size: [3, 4]",
        "| model.onnx | 3 | `00` |",
        "- model: (to be filled)",
        "- data: (to be filled)",
        "- contact: (to be filled)",
    ],
)
def test_the_card_says(line: str) -> None:
    assert line in _card()


@pytest.mark.parametrize(
    "heading", ["## Data", "## Metrics", "## Inputs and outputs", "## Preprocessing", "## Files", "## Licence"]
)
def test_the_card_has_every_part_once(heading: str) -> None:
    assert _card().count(f"\n{heading}\n") == 1


def test_a_run_that_nobody_has_judged_says_so() -> None:
    card = _card(run={"id": "shades", "step": 3})
    assert "readiness (`trueloop ready`): not checked" in card
    assert "best validation" not in card
    assert "(the recipe does not describe its data)" in card


def test_what_the_caller_must_do_himself_cannot_be_overlooked() -> None:
    card = _card(preprocessing={"kind": "tensors", "inside": False, "prepare": "mine.scaled"})
    assert "The recipe's preprocessing of raw samples (mine.scaled) is NOT in the file: do it yourself." in card


def test_long_lists_are_counted() -> None:
    card = _card(classes=tuple(f"class {number}" for number in range(1000)))
    assert "- 1000 classes: class 0, " in card
    assert "class 20" not in card
    assert ", ..." in card
    card = _card(preprocessing={"kind": "tokens", "words": [f"word{number}" for number in range(5000)], "inside": True})
    assert "- words: 5,000 entries, in artifact.json" in card
    assert "word3" not in card


def test_columns_of_a_table_are_named() -> None:
    columns = [{"name": "size", "kind": "number"}, {"name": "town", "kind": "category"}]
    assert "- columns: size, town" in _card(preprocessing={"kind": "table", "columns": columns, "inside": True})


def test_limits_of_free_sizes_are_shown() -> None:
    assert "| in | input | int64 | any x 1 to 64 |" in _card(inputs=(Port("input", "int64", (None, None), (None, 64)),))


def test_notes_stand_out() -> None:
    assert "\n> It is machine code." in _card(notes=("It is machine code.",))


def test_licences_that_were_given_stand_there() -> None:
    card = _card(licence={"model": "MIT", "data": "CC BY 4.0", "contact": ""})
    assert "- model: MIT" in card
    assert "- data: CC BY 4.0" in card
    assert "- contact: (to be filled)" in card
