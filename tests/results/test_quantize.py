"""The words of a quantization: what a drop is, what is allowed, what is told."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from trueloop.results.quantize import ALLOWED, Layer, Quantization, Speed, allowed_of, change_of, drop_of

LAYERS = (
    Layer("first", "Conv2d", 4000, 1100, 0.002, 0.001),
    Layer("middle", "Linear", 8000, 2100, 0.09, 0.02),
    Layer("middle.two", "Linear", 8000, 2100, 0.10, 0.02),
    Layer("last", "Linear", 16, 40, 0.5, 0.3, kept="larger"),
)
TOLD = Quantization(
    name="shades",
    scheme="int8-weight",
    target="pt2",
    metric="accuracy",
    higher_is_better=True,
    before=0.91,
    after=0.905,
    max_drop=ALLOWED,
    split="valid",
    samples=1000,
    calibrated=0,
    size_before=20016,
    size_after=5316,
    layers=LAYERS,
    error=0.12,
)


@pytest.mark.parametrize(
    ("metric", "higher", "before", "after", "drop"),
    [
        ("accuracy", True, 0.91, 0.90, 0.01),
        ("accuracy", True, 0.90, 0.91, -0.01),
        ("f1", True, 0.5, 0.4, 0.1),
        ("loss", False, 2.0, 2.02, 0.01),
        ("loss", False, 2.0, 1.9, -0.05),
        ("r2", True, 0.8, 0.72, 0.08),
        ("loss", False, 0.0, 0.5, 0.5),
    ],
)
def test_a_drop_is_in_points_of_a_share_and_a_part_of_other_metrics(
    metric: str, higher: bool, before: float, after: float, drop: float
) -> None:
    assert drop_of(metric, higher, before, after) == pytest.approx(drop)


def test_a_drop_in_words() -> None:
    assert allowed_of("accuracy", 0.01) == "1 point"
    assert allowed_of("accuracy", 0.025) == "2.5 points"
    assert allowed_of("loss", 0.01) == "1 % of the loss"
    assert change_of("accuracy", -0.002) == "better by 0.2 points"
    assert change_of("accuracy", 0.002) == "drop 0.2 points"


def test_what_is_allowed_is_allowed_to_the_last_point_and_no_further() -> None:
    assert TOLD.within
    assert replace(TOLD, before=0.5, after=0.5 - ALLOWED).within
    assert not replace(TOLD, after=0.8999).within


def test_a_metric_that_is_no_number_is_past_any_drop() -> None:
    assert not replace(TOLD, metric="loss", higher_is_better=False, after=math.nan, max_drop=1e9).within


def test_the_costliest_layer_is_first_and_one_in_float_costs_nothing() -> None:
    assert [layer.name for layer in TOLD.costliest] == ["middle.two", "middle", "first"]
    assert [layer.name for layer in TOLD.kept] == ["last"]


def test_the_summary_for_artifact_json_is_plain() -> None:
    summary = json.loads(json.dumps(TOLD.summary()))
    assert summary["scheme"] == "int8-weight"
    assert summary["drop"] == pytest.approx(0.005)
    assert summary["kept_in_float"] == ["last"]
    assert (summary["size_before"], summary["size_after"]) == (20016, 5316)


def test_the_words_for_the_card_hold_drop_size_and_what_stayed_in_float() -> None:
    words = TOLD.words()
    assert "accuracy 0.91 -> 0.905 on 1,000 valid samples (drop 0.5 points, allowed 1 point)" in words
    assert "20,016 -> 5,316 bytes (3.77x smaller); kept in float: last." in words


def test_speed_is_times_the_float_model() -> None:
    assert Speed(1, 2e-3, 1e-3).times == 2.0
    assert Speed(1, 1e-3, 2e-3).times == 0.5
