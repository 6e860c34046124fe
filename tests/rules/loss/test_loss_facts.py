"""The loss rules on constructed events: each threshold from both sides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trueloop.event import Backward, Event, Forward, LossComputed, NotFinite, Place, RunEnded, Stepped
from trueloop.finding import Finding, Severity
from trueloop.rules.checker import Checker
from trueloop.rules.loss.logits_passed_as_probabilities import LogitsPassedAsProbabilities
from trueloop.rules.loss.loss_diverges import LossDiverges
from trueloop.rules.loss.nan_or_inf import NanOrInf
from trueloop.rules.loss.regression_loss_on_class_labels import RegressionLossOnClassLabels
from trueloop.rules.loss.shapes_broadcast_in_loss import ShapesBroadcastInLoss
from trueloop.rules.loss.sigmoid_before_bce_with_logits import SigmoidBeforeBceWithLogits
from trueloop.rules.loss.softmax_before_cross_entropy import SoftmaxBeforeCrossEntropy
from trueloop.rules.loss.wrong_target_format import WrongTargetFormat
from trueloop.rules.rule import Rule

HERE = Place("gone.py", 7, "train")
THERE = Place("gone.py", 3, "forward")

LOSS = LossComputed(
    step=0,
    place=HERE,
    function="cross_entropy",
    call=0,
    grad=True,
    reduction="mean",
    input_shape=(8, 3),
    target_shape=(8,),
    input_dtype="float32",
    target_dtype="int64",
    input_range=(-2.0, 2.0),
    target_range=(0.0, 2.0),
    rows="scores",
    preceding=("AddmmBackward0",),
    preceding_place=None,
    preceding_module="",
    target_integral=True,
    target_distinct=3,
    target_rows_sum_to_one=None,
    target_used_as_class=False,
    ignore_index=-100,
)
BACKWARD = Backward(
    step=0,
    place=HERE,
    call=0,
    loss=1.0,
    root="MeanBackward0",
    mean=True,
    divided=False,
    scaled_by_amp=False,
    inside_step=False,
    retained=False,
    nodes=None,
    spanned_steps=None,
    reached=None,
    optimized=2,
    broadcast=None,
    broadcast_place=None,
    loss_text="loss",
)
STEP = Stepped(
    step=0,
    place=HERE,
    optimizer=0,
    name="SGD",
    index=0,
    gradients="new",
    cleared=True,
    backwards=1,
    backward_places=(HERE,),
    most_at_one_place=1,
    averaged=False,
    clipped=False,
    closure=False,
    learning_rates=(0.1,),
    scale_free=False,
)
END = RunEnded(step=9, place=None, reason="finished", epochs=0, forwards=0, unwatched_steps=0)


def findings(rule: type[Rule], *events: Event) -> list[Finding]:
    checker = Checker([rule])
    for event in events:
        checker.check(event)
    assert not checker.failures, checker.failures
    return checker.findings()


# -- LOS101 --

PROBABILITIES = replace(
    LOSS, rows="probabilities", input_range=(0.1, 0.8), preceding=("SoftmaxBackward0",), preceding_place=THERE
)


def test_probabilities_are_reported_at_the_softmax_from_the_second_call_on() -> None:
    assert not findings(SoftmaxBeforeCrossEntropy, PROBABILITIES)
    (found,) = findings(SoftmaxBeforeCrossEntropy, PROBABILITIES, replace(PROBABILITIES, preceding_place=None))
    assert found.place == THERE
    assert found.severity is Severity.ERROR
    assert found.evidence["loss"] == "gone.py:7"


def test_one_call_with_scores_clears_a_line() -> None:
    assert not findings(SoftmaxBeforeCrossEntropy, PROBABILITIES, LOSS, PROBABILITIES, PROBABILITIES)


def test_log_probabilities_are_advice_and_only_where_a_log_softmax_stands_behind() -> None:
    logs = replace(LOSS, rows="log-probabilities", preceding=("LogSoftmaxBackward0",))
    (found,) = findings(SoftmaxBeforeCrossEntropy, logs, logs)
    assert found.severity is Severity.ADVICE
    assert not findings(SoftmaxBeforeCrossEntropy, *[replace(logs, preceding=("LogBackward0",))] * 3)


def test_a_validation_loss_is_reported_only_if_the_training_loss_was_not() -> None:
    validation = replace(PROBABILITIES, place=Place("gone.py", 20), grad=False, preceding=(), preceding_place=None)
    assert len(findings(SoftmaxBeforeCrossEntropy, PROBABILITIES, PROBABILITIES, validation, validation, END)) == 1
    (found,) = findings(SoftmaxBeforeCrossEntropy, validation, validation, END)
    assert found.place == validation.place


# -- LOS102 --

BINARY = replace(
    LOSS,
    function="binary_cross_entropy_with_logits",
    input_shape=(8, 1),
    target_shape=(8, 1),
    target_dtype="float32",
    target_range=(0.0, 1.0),
    input_range=(0.01, 0.99),
    rows="unknown",
    target_distinct=2,
)


@pytest.mark.parametrize(
    ("behind", "interval", "calls", "speaks"),
    [
        (("ViewBackward0", "SigmoidBackward0"), (0.4, 0.6), 2, True),
        (("SigmoidBackward0",), (0.4, 0.6), 1, False),
        (("SubBackward0",), (0.01, 0.99), 9, False),
        (("CompiledFunctionBackward",), (0.05, 0.95), 6, True),
        (("CompiledFunctionBackward",), (0.05, 0.95), 5, False),
        (("CompiledFunctionBackward",), (0.2, 0.95), 9, False),
        (("CompiledFunctionBackward",), (0.05, 1.01), 9, False),
        ((), (0.05, 0.95), 9, False),
    ],
)
def test_a_sigmoid_by_graph_or_by_value(
    behind: tuple[str, ...], interval: tuple[float, float], calls: int, speaks: bool
) -> None:
    event = replace(BINARY, preceding=behind, input_range=interval)
    assert bool(findings(SigmoidBeforeBceWithLogits, *[event] * calls)) is speaks


# -- LOS103 --


@pytest.mark.parametrize(
    ("change", "speaks"),
    [
        ({"function": "nll_loss", "input_range": (-3.0, 0.06)}, True),
        ({"function": "nll_loss", "input_range": (-3.0, 0.04)}, False),
        ({"function": "nll_loss", "rows": "log-probabilities", "input_range": (-3.0, 0.06)}, False),
        ({"function": "nll_loss", "rows": "probabilities", "input_range": (0.1, 0.9)}, True),
        ({"function": "kl_div", "rows": "probabilities", "input_range": (0.1, 0.9)}, True),
        ({"function": "kl_div", "target_rows_sum_to_one": True}, True),
        ({"function": "kl_div", "target_rows_sum_to_one": False}, False),
        ({"function": "binary_cross_entropy", "preceding": ("ClampBackward1", "AddmmBackward0")}, True),
        ({"function": "binary_cross_entropy", "preceding": ("ClampBackward1", "SigmoidBackward0")}, False),
        ({"function": "binary_cross_entropy", "preceding": ("AddmmBackward0",)}, False),
        ({"function": "cross_entropy"}, False),
    ],
)
def test_what_is_no_probability(change: dict[str, object], speaks: bool) -> None:
    event = replace(LOSS, **change)  # type: ignore[arg-type]
    assert not findings(LogitsPassedAsProbabilities, event)
    assert bool(findings(LogitsPassedAsProbabilities, event, event)) is speaks


# -- LOS104 --


@pytest.mark.parametrize(
    ("change", "severity"),
    [
        ({"target_shape": (8, 1)}, Severity.ERROR),
        ({"target_shape": (8, 1), "target_range": (0.0, 3.0)}, None),
        ({"target_shape": (8, 1), "target_distinct": 2, "target_range": (0.0, 1.0)}, None),
        (
            {"target_shape": (8, 1), "target_distinct": 2, "target_range": (0.0, 1.0), "target_used_as_class": True},
            Severity.ERROR,
        ),
        ({"input_shape": (8,)}, None),
        ({"input_shape": (8,), "target_used_as_class": True}, Severity.WARNING),
        ({"input_shape": (8,), "target_used_as_class": True, "target_distinct": 2}, None),
        ({"target_shape": (8, 1), "target_integral": False}, None),
    ],
)
def test_a_regression_loss_on_class_indices(change: dict[str, object], severity: Severity | None) -> None:
    loss = replace(LOSS, function="mse_loss", target_dtype="float32", rows="unknown")
    event = replace(loss, **change)  # type: ignore[arg-type]
    found = findings(RegressionLossOnClassLabels, event, event)
    assert [f.severity for f in found] == ([] if severity is None else [severity])


# -- LOS105 --


@pytest.mark.parametrize(
    ("given", "target", "reduction", "speaks"),
    [
        ((8, 1), (8,), "mean", True),
        ((8,), (8, 1), "sum", True),
        ((8, 1, 3), (8, 3), "mean", True),
        ((8, 1), (8,), "none", True),
        ((8, 1), (1, 8), "mean", True),
        ((8, 5, 1), (8, 1, 5), "none", False),
        ((8, 3), (3,), "mean", False),
        ((8, 3), (8, 1), "mean", False),
        ((8, 3), (1,), "mean", False),
        ((8,), (), "mean", False),
        ((1, 1), (1,), "mean", False),
        ((8, 1), (8, 1), "mean", False),
    ],
)
def test_shapes_that_cross(given: tuple[int, ...], target: tuple[int, ...], reduction: str, speaks: bool) -> None:
    event = replace(LOSS, function="mse_loss", input_shape=given, target_shape=target, reduction=reduction)
    assert bool(findings(ShapesBroadcastInLoss, event)) is speaks


@pytest.mark.parametrize(
    ("prediction", "made", "speaks"),
    [
        ((8, 1), (8, 8), True),
        ((8,), (8, 8), True),
        ((1,), (8,), False),
        ((1, 3), (8, 3), False),
        ((8, 1), (8, 3), False),
    ],
)
def test_a_custom_loss(prediction: tuple[int, ...], made: tuple[int, ...], speaks: bool) -> None:
    found = findings(ShapesBroadcastInLoss, replace(BACKWARD, broadcast=(prediction, made), broadcast_place=THERE))
    assert [f.place for f in found] == ([THERE] if speaks else [])


# -- LOS106 --


@pytest.mark.parametrize(
    ("change", "speaks"),
    [
        ({"target_range": (0.0, 2.0), "target_distinct": 3}, True),
        ({"target_range": (0.0, 1.0)}, False),
        ({"target_range": (-1.0, 1.0)}, True),
        ({"target_range": (0.0, 1.5), "target_integral": False}, False),
        ({"target_range": (0.0, 1.51), "target_integral": False}, True),
        ({"target_range": (-0.5, 1.0), "target_integral": False}, False),
        ({"target_range": (-0.51, 1.0), "target_integral": False}, True),
    ],
)
def test_yes_or_no_targets(change: dict[str, object], speaks: bool) -> None:
    event = replace(BINARY, **change)  # type: ignore[arg-type]
    assert bool(findings(WrongTargetFormat, event, event)) is speaks


SOFT = replace(LOSS, target_shape=(8, 3), target_dtype="float32", target_range=(0.0, 1.0), target_rows_sum_to_one=False)


@pytest.mark.parametrize(
    ("change", "severity"),
    [
        ({}, Severity.WARNING),
        ({"target_rows_sum_to_one": True}, None),
        ({"target_integral": False}, None),
        ({"target_range": (0.0, 4.0)}, None),
        ({"input_shape": (8, 8), "target_shape": (8, 8)}, None),
        ({"input_shape": (8, 1), "target_shape": (8, 1)}, Severity.ERROR),
        ({"input_shape": (8,), "target_shape": (8,)}, Severity.ERROR),
        ({"target_dtype": "int64", "target_shape": (8,), "target_range": None}, Severity.ERROR),
    ],
)
def test_targets_of_cross_entropy(change: dict[str, object], severity: Severity | None) -> None:
    event = replace(SOFT, **change)  # type: ignore[arg-type]
    found = findings(WrongTargetFormat, event, event)
    assert [f.severity for f in found] == ([] if severity is None else [severity])


def test_one_batch_of_padding_among_others_is_fine() -> None:
    padding = replace(LOSS, target_range=None)
    assert not findings(WrongTargetFormat, LOSS, padding, LOSS, padding)


# -- LOS109 --


def run_of(*losses: float, players: int = 1, bootstrapped: bool = False) -> list[Event]:
    events: list[Event] = []
    for step, loss in enumerate(losses):
        if bootstrapped:
            events.append(FORWARD)
        events.append(replace(BACKWARD, step=step, loss=loss))
        events += [replace(STEP, step=step, optimizer=player) for player in range(players)]
    return [*events, END]


FORWARD = Forward(
    step=0,
    place=HERE,
    call=0,
    model=0,
    name="Net",
    training=True,
    grad=False,
    fate="graphless",
    active_dropouts=0,
    active_batch_norms=0,
    idle_dropouts=0,
    idle_batch_norms=0,
    batch=8,
    scored=False,
    same_input=False,
    recalibration=False,
    eval_place=None,
)


@pytest.mark.parametrize(
    ("losses", "speaks"),
    [
        ([1.0] * 5 + [11.0] * 8, True),
        ([1.0] * 5 + [9.0] * 8, False),
        ([1.0] * 5 + [11.0] * 7, False),
        ([1.0] * 5 + [11.0] * 20 + [2.0], False),
        ([1.0] * 5 + [50.0] * 8 + [1.0] * 8, False),
        ([1e-4] * 5 + [0.5] * 8, False),
        ([1e-4] * 5 + [1.5] * 8, True),
        ([1.0] + [11.0] * 20, True),
        ([1.0] + [11.0] * 10 + [9.0] + [11.0] * 10, False),
        ([1.0, 20.0, 400.0, float("inf")], True),
        ([1.0, 1.1, 0.9, float("nan")], False),
        ([1.0] * 5 + [11.0] * 4 + [-1.0] + [11.0] * 8, False),
    ],
)
def test_a_loss_that_leaves(losses: list[float], speaks: bool) -> None:
    assert bool(findings(LossDiverges, *run_of(*losses))) is speaks


def test_two_players_and_bootstrapped_values_may_climb() -> None:
    climb = [1.0] * 5 + [100.0] * 8
    assert not findings(LossDiverges, *run_of(*climb, players=2))
    assert not findings(LossDiverges, *run_of(*climb, bootstrapped=True))


@pytest.mark.parametrize(("length", "speaks"), [(8, True), (9, True), (16, False), (4, True)])
def test_a_loss_over_more_and_more_terms_may_climb(length: int, speaks: bool) -> None:
    climb = run_of(*[1.0] * 5, *[20.0] * 8)
    shapes = [replace(LOSS, input_shape=(8, 3)), replace(LOSS, input_shape=(length, 3))]
    assert bool(findings(LossDiverges, *shapes, *climb)) is speaks
    assert findings(LossDiverges, *(replace(shape, grad=False) for shape in shapes), *climb), (
        "validation sets may be of any size"
    )


def test_a_loss_that_climbed_explains_why_it_is_no_number() -> None:
    event = NotFinite(3, HERE, "loss", "", "", None, "inf", "unknown", (0.1,))
    checker = Checker([LossDiverges, NanOrInf])
    for one in [*run_of(1.0, 20.0, 400.0, float("inf"))[:-1], event, END]:
        checker.check(one)
    assert [f.name for f in checker.findings()] == ["loss-diverges"]


# -- LOS110 --


@pytest.mark.parametrize("origin", ["input", "weight", "layer", "loss", "unknown"])
def test_every_origin_has_a_sentence_and_a_fix(origin: str) -> None:
    unknown = NotFinite(3, HERE, "loss", "fc1 (Linear)", "log", (0.0, 1.0), "nan", "unknown", (0.1,))
    event = replace(unknown, origin=origin)  # type: ignore[arg-type]
    (found,) = findings(NanOrInf, event)
    assert found.message.startswith("The loss is nan at step 4: ")
    assert found.fix


def test_no_rule_of_losses_can_judge_a_run_without_losses() -> None:
    rules: list[type[Rule]] = [SoftmaxBeforeCrossEntropy, WrongTargetFormat, LossDiverges, NanOrInf]
    checker = Checker(rules)
    checker.check(END)
    assert {code for code, _ in checker.not_applicable()} == {rule.code for rule in rules}
