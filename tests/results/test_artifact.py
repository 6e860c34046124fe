"""What an artifact says of itself, and what is made of raw scores."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.export.made import artifact, verification
from trueloop.results.artifact import LICENCE, OWN, Artifact, Port, answer_of, prediction_of


def test_an_artifact_comes_back_from_json_as_it_was() -> None:
    made = artifact(verification=verification(metrics={"accuracy": (0.5, 0.25)}, lengths=(1, 8)), notes=("a note",))
    told = json.loads(json.dumps(made.plain()))
    assert Artifact.of(told, made.folder) == made
    assert told["format"] == 1
    assert "folder" not in told


def test_the_model_is_the_first_file_whatever_the_order_in_json() -> None:
    made = artifact(files={"model.onnx": {"bytes": 1}, "a-second-one": {"bytes": 2}})
    told = json.loads(json.dumps(made.plain(), sort_keys=True))
    assert Artifact.of(told, Path("there")).file == Path("there", "model.onnx")


@pytest.mark.parametrize("missing", ["inputs", "task", "run", "model", "verification"])
def test_a_description_without_a_part_is_refused(missing: str) -> None:
    told = artifact().plain()
    del told[missing]
    with pytest.raises((KeyError, TypeError)):
        Artifact.of(told, Path())


def test_licences_are_empty_until_somebody_fills_them() -> None:
    assert artifact().licence == dict(LICENCE)
    assert not any(artifact().licence.values())


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ([5, 8], ""),
        ([1, 64], ""),
        ([5], "input has 2 dimensions, [any, any], not 1"),
        ([5, 65], "dimension 1 of input must be 1 to 64, not 65"),
        ([0, 8], "dimension 0 of input must be 1 to any size, not 0"),
    ],
)
def test_a_port_says_why_an_array_does_not_fit(shape: list[int], reason: str) -> None:
    assert Port("input", "int64", (None, None), (None, 64)).refusal(shape) == reason


def test_a_size_that_is_fixed_must_be_met() -> None:
    assert Port("input", "uint8", (None, 1)).refusal([3, 2]) == "dimension 1 of input must be 1, not 2 ([any, 1])"


@pytest.mark.parametrize(
    ("fields", "passed"),
    [
        ({"max_error": 1e-4}, True),
        ({"max_error": 1.1e-4}, False),
        ({"max_error": 0.9, "scale": 1e4}, True),
        ({"disagreements": 1}, False),
        ({"ties": 3}, True),
        ({"max_error": math.inf}, False),
    ],
)
def test_a_verification_passes_within_its_tolerance_and_with_the_same_predictions(
    fields: dict[str, Any], passed: bool
) -> None:
    assert verification(**fields).passed is passed


def test_one_of_several_classes_has_a_name_and_probabilities() -> None:
    answer = answer_of(artifact(), [0.0, math.log(3), 0.0])
    assert (answer["class"], answer["number"]) == ("grey", 1)
    assert answer["probability"] == pytest.approx(0.6)
    assert answer["probabilities"] == pytest.approx({"dark": 0.2, "grey": 0.6, "light": 0.2})


@given(st.lists(st.floats(-1e300, 1e300), min_size=3, max_size=3))
def test_probabilities_of_any_scores_sum_to_one(scores: list[float]) -> None:
    answer = answer_of(artifact(), scores)
    assert math.fsum(answer["probabilities"].values()) == pytest.approx(1)
    assert scores[answer["number"]] == max(scores)


def test_scores_that_are_no_numbers_are_handed_on_as_they_are() -> None:
    assert answer_of(artifact(), [math.inf, 0.0, 1.0]) == {"scores": [math.inf, 0.0, 1.0]}


def test_classes_of_points_are_handed_on_as_scores() -> None:
    assert answer_of(artifact(), [[1.0], [2.0], [0.0]]) == {"scores": [[1.0], [2.0], [0.0]]}


@pytest.mark.parametrize(
    ("score", "name", "probability"),
    [(2.0, "praise", 0.8808), (-2.0, "against", 0.8808), (0.0, "against", 0.5), (-800.0, "against", 1.0)],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_yes_or_no_is_decided_as_the_metric_decides_it(
    score: float, name: str, probability: float, wrapped: bool
) -> None:
    answer = answer_of(artifact(task="binary", classes=("against", "praise")), [score] if wrapped else score)
    assert answer["class"] == name
    assert answer["probability"] == pytest.approx(probability, abs=1e-4)


def test_several_labels_are_those_above_a_half() -> None:
    answer = answer_of(artifact(task="multilabel"), [1.0, -1.0, 3.0])
    assert answer["labels"] == ["dark", "light"]
    assert answer["numbers"] == [0, 2]


@pytest.mark.parametrize(("scores", "value"), [([2.5], 2.5), (2.5, 2.5), ([1.0, 2.0], [1.0, 2.0])])
def test_quantities_are_answered_as_they_are(scores: Any, value: Any) -> None:
    assert answer_of(artifact(task="regression", classes=()), scores) == {"value": value}


def test_of_a_text_the_next_token_is_answered() -> None:
    answer = answer_of(artifact(task="language", classes=()), [[9.0, 0.0], [0.0, math.log(4)]])
    assert answer["number"] == 1
    assert answer["probability"] == pytest.approx(0.8)


def test_a_description_knows_its_file() -> None:
    assert replace(artifact(), folder=Path("a")).file == Path(f"a{os.sep}model.onnx")


def test_outputs_of_a_loss_of_its_own_are_predictions_as_they_are() -> None:
    heads = (Port("age", "float32", (None,)), Port("mean", "float32", (1,)), Port("kind", "float32", (None, 2)))
    made = artifact(outputs=heads, task=OWN)
    assert prediction_of(made, [40.0, [0.5, 0.25]]) == {"age": 40.0, "kind": [0.5, 0.25]}


def test_more_outputs_stand_beside_the_prediction() -> None:
    heads = (Port("scores", "float32", (None, 3)), Port("vector", "float32", (None, 2)))
    found = prediction_of(artifact(outputs=heads), [[0.0, 9.0, 0.0], [1.0, 2.0]])
    assert found["class"] == "grey"
    assert found["outputs"] == {"vector": [1.0, 2.0]}
    assert "outputs" not in prediction_of(artifact(), [[0.0, 9.0, 0.0]])
