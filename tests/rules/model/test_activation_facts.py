"""Dead units, saturated activations, collapsed outputs, broken ties and unrepeatable evaluations on facts written by
hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from trueloop.event import (
    ActivationsMeasured,
    EvaluationRepeated,
    Event,
    LayerActivations,
    OutputsCompared,
    Place,
    RunEnded,
    TieBroken,
)
from trueloop.finding import Finding
from trueloop.rules.checker import Checker
from trueloop.rules.mode.nondeterministic_evaluation import NondeterministicEvaluation
from trueloop.rules.model.dead_relu_units import DeadReluUnits
from trueloop.rules.model.output_ignores_input import OutputIgnoresInput
from trueloop.rules.model.saturated_activations import SaturatedActivations
from trueloop.rules.model.weight_tying_broken import WeightTyingBroken
from trueloop.rules.rule import Rule

LINE = Place("train.py", 7)
LAYER = Place("model.py", 3)
END = RunEnded(60, None, "finished", 1, 60, 0)


def said(rule: type[Rule], *events: Event) -> list[Finding]:
    checker = Checker([rule])
    for event in (*events, END):
        checker.check(event)
    assert not checker.failures
    return checker.findings()


def relu(backward: int = 24, units: int = 40, silent: int = 32) -> ActivationsMeasured:
    layer = LayerActivations("Net", "first", "relu", units, 64, silent, 0.0, 9, LAYER)
    return ActivationsMeasured(backward, LINE, backward, (layer,))


@pytest.mark.parametrize(
    ("backward", "units", "silent", "findings"),
    [(24, 40, 32, 1), (24, 40, 31, 0), (24, 24, 24, 1), (24, 23, 23, 0), (20, 40, 40, 1), (19, 40, 40, 0)],
)
def test_four_fifths_of_a_layer_are_dead_after_twenty_steps(
    backward: int, units: int, silent: int, findings: int
) -> None:
    assert len(said(DeadReluUnits, relu(backward, units, silent))) == findings


def test_units_that_come_back_before_the_end_are_alive() -> None:
    assert not said(DeadReluUnits, relu(24), relu(32, silent=3))
    (finding,) = said(DeadReluUnits, relu(24, silent=3), relu(32))
    assert finding.place == LAYER
    assert "32 of the 40" in finding.message


def curve(
    railed: float, looks: int = 9, backward: int = 24, function: Literal["sigmoid", "tanh"] = "tanh"
) -> ActivationsMeasured:
    layer = LayerActivations("Net", "first", function, 40, 64, 0, railed, looks, LAYER)
    return ActivationsMeasured(backward, LINE, backward, (layer,))


@pytest.mark.parametrize(
    ("railed", "looks", "backward", "findings"),
    [(0.9, 5, 20, 1), (0.89, 5, 20, 0), (1.0, 4, 20, 0), (1.0, 5, 19, 0), (1.0, 5, 20, 1)],
)
def test_nine_tenths_at_the_ends_at_every_look(railed: float, looks: int, backward: int, findings: int) -> None:
    assert len(said(SaturatedActivations, curve(railed, looks, backward))) == findings


def test_what_comes_to_saturate_by_training_is_left_alone() -> None:
    assert not said(SaturatedActivations, curve(0.2, 1, 1), curve(1.0))
    assert not said(SaturatedActivations, curve(1.0, 1, 1), curve(0.5, 2, 2), curve(1.0))
    assert said(SaturatedActivations, curve(1.0, 1, 1, "sigmoid"), curve(0.95, function="sigmoid"))


def outputs(
    step: int, spread: float = 0.0, scale: float = 2.0, different: int = 31, *, training: bool = True
) -> OutputsCompared:
    return OutputsCompared(step, LINE, 0, "Net", training, 32, different, spread, scale)


@pytest.mark.parametrize(
    ("steps", "spread", "different", "findings"),
    [
        ((20, 24, 32), 0.0, 31, 1),
        ((19, 24, 32), 0.0, 31, 0),
        ((24, 32), 0.0, 31, 0),
        ((24, 32, 48), 2e-6, 31, 1),
        ((24, 32, 48), 2.1e-6, 31, 0),
        ((24, 32, 48), 0.0, 16, 1),
        ((24, 32, 48), 0.0, 15, 0),
    ],
)
def test_three_late_looks_at_equal_outputs_of_different_inputs(
    steps: tuple[int, ...], spread: float, different: int, findings: int
) -> None:
    assert len(said(OutputIgnoresInput, *(outputs(step, spread, different=different) for step in steps))) == findings


def test_outputs_that_part_again_are_in_order_and_one_model_is_told_once() -> None:
    looks = [outputs(step) for step in (24, 32, 48)]
    assert not said(OutputIgnoresInput, *looks, outputs(64, 0.3))
    assert len(said(OutputIgnoresInput, *looks, *(outputs(step, training=False) for step in (24, 32, 48)))) == 1
    assert not said(OutputIgnoresInput, *(outputs(step, spread=float("nan")) for step in (24, 32, 48)))


def test_a_broken_tie_is_told_where_it_broke_else_where_it_was_made() -> None:
    tie = TieBroken(9, LINE, 0, "Net", "encoder.weight", "decoder.weight", (20, 8), LAYER, 9, "loading")
    (finding,) = said(WeightTyingBroken, tie)
    assert finding.place == LINE
    assert "for 9 steps" in finding.message
    assert "assign=True" in finding.fix
    (finding,) = said(WeightTyingBroken, replace(tie, place=None, steps=0, by="unknown"))
    assert finding.place == LAYER
    assert "before training began" in finding.message


@pytest.mark.parametrize(
    ("change", "sampling", "findings"), [(2e-4, False, 1), (1e-4, False, 0), (0.0, False, 0), (0.5, True, 0)]
)
def test_outputs_must_change_by_more_than_rounding_and_not_by_sampling(
    change: float, sampling: bool, findings: int
) -> None:
    event = EvaluationRepeated(9, LINE, 0, "Net", 8, change, ("randn_like",), LAYER, sampling)
    assert [finding.place for finding in said(NondeterministicEvaluation, event)] == [LAYER] * findings
