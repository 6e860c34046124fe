"""Rules about number formats, on constructed events: each threshold from both sides."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from trueloop.event import (
    Backward,
    BackwardDtypes,
    ClippedScaled,
    Event,
    LogFiltered,
    LossHidden,
    Matmuls,
    NotFinite,
    Place,
    RunEnded,
    ScalerCounted,
    Stepped,
    UpdateRounded,
)
from trueloop.finding import Finding, Severity
from trueloop.rules.checker import Checker
from trueloop.rules.gradient.clipped_before_unscale import ClippedBeforeUnscale
from trueloop.rules.loss.nan_or_inf import NanOrInf
from trueloop.rules.precision.backward_under_autocast import BackwardUnderAutocast
from trueloop.rules.precision.fp16_without_grad_scaler import Fp16WithoutGradScaler
from trueloop.rules.precision.grad_scaler_skips_steps import GradScalerSkipsSteps
from trueloop.rules.precision.grad_scaler_without_fp16 import GradScalerWithoutFp16
from trueloop.rules.precision.nan_or_inf_hidden import NanOrInfHidden
from trueloop.rules.precision.tf32_disabled import Tf32Disabled
from trueloop.rules.precision.weights_in_half_precision import WeightsInHalfPrecision
from trueloop.rules.rule import Rule

BACKWARD, STEP, BUILT = Place("train.py", 8), Place("train.py", 9), Place("train.py", 3)
END = RunEnded(100, None, "finished", 1, 100, 0)
HALF = BackwardDtypes(0, BACKWARD, "cuda", ("float16",), True, ("float32",), "none", None, None, False, "")
SCALED = replace(HALF, dtypes=("bfloat16",), scaling="scaler", scaler=0, scaler_place=BUILT)
COUNTED = ScalerCounted(100, STEP, 0, 120, 30, 100, 10, 65536.0, 1.0, 2000, False)
ROUNDED = UpdateRounded(2, STEP, 0, "AdamW", 2, "fc.weight", "bfloat16", 500, 0.9, 1e-4, BUILT)
MATMULS = Matmuls(8, Place("train.py", 7), 0, "Net", (8, 0), "ieee", 4, 1.0, False)


def said(rule: type[Rule], *events: Event) -> list[Finding]:
    checker = Checker([rule])
    for event in events:
        checker.check(event)
    assert not checker.failures, checker.failures
    return checker.findings()


def stepped(index: int, *places: Place) -> Stepped:
    return Stepped(index, STEP, 0, "SGD", index, "new", True, len(places), places, 1, True, False, False, (0.1,), False)


# -- PRC101 --


@pytest.mark.parametrize(("steps", "findings"), [(2, 0), (3, 1)])
def test_three_steps_with_unscaled_float16_gradients_are_an_error(steps: int, findings: int) -> None:
    found = said(Fp16WithoutGradScaler, HALF, *(stepped(index, BACKWARD) for index in range(steps)))
    assert len(found) == findings
    assert all(finding.severity is Severity.ERROR and finding.place == BACKWARD for finding in found)


@pytest.mark.parametrize(
    "seen",
    [
        replace(HALF, dtypes=("bfloat16",)),
        replace(HALF, dtypes=()),
        replace(HALF, scaling="scaler", scaler=0),
        replace(HALF, scaling="manual"),
    ],
)
def test_bfloat16_float32_and_scaled_losses_are_fine(seen: BackwardDtypes) -> None:
    assert not said(Fp16WithoutGradScaler, seen, *(stepped(index, BACKWARD) for index in range(6)))


def test_gradients_that_no_step_uses_are_fine() -> None:
    assert not said(Fp16WithoutGradScaler, HALF, *(stepped(index, Place("train.py", 30)) for index in range(6)))


def test_a_line_that_scales_some_of_its_losses_knows_how() -> None:
    scaled = replace(HALF, scaling="scaler", scaler=0)
    assert not said(
        Fp16WithoutGradScaler, HALF, stepped(0, BACKWARD), scaled, *(stepped(index, BACKWARD) for index in range(1, 6))
    )


@pytest.mark.parametrize(("zeros", "told"), [(None, "below 6e-5"), (0.0, "below 6e-5"), (0.4, "40.0%")])
def test_the_share_of_lost_gradients_is_told_where_there_is_one(zeros: float | None, told: str) -> None:
    seen = replace(HALF, zeros=zeros, subnormals=None if zeros is None else 0.0)
    assert told in said(Fp16WithoutGradScaler, seen, *(stepped(index, BACKWARD) for index in range(3)))[0].message


def test_a_scaler_that_is_switched_off_is_named() -> None:
    found = said(
        Fp16WithoutGradScaler, replace(HALF, scaler_off=True), *(stepped(index, BACKWARD) for index in range(3))
    )
    assert "is disabled" in found[0].message
    assert "enabled=True" in found[0].fix


# -- PRC102 and PRC103 --


@pytest.mark.parametrize(("looks", "findings"), [(2, 0), (3, 1)])
def test_a_scaler_is_judged_by_three_graphs_at_the_end(looks: int, findings: int) -> None:
    events = [replace(SCALED, step=step) for step in range(looks)]
    assert not said(GradScalerWithoutFp16, *events)
    assert [finding.place for finding in said(GradScalerWithoutFp16, *events, END)] == [BUILT] * findings


@pytest.mark.parametrize("other", [replace(SCALED, dtypes=("bfloat16", "float16")), replace(SCALED, complete=False)])
def test_one_float16_graph_or_one_that_hides_something_acquits_a_scaler(other: BackwardDtypes) -> None:
    assert not said(GradScalerWithoutFp16, SCALED, SCALED, SCALED, other, END)


def test_another_scalers_float16_acquits_nobody() -> None:
    other = replace(SCALED, scaler=1, dtypes=("float16",))
    assert len(said(GradScalerWithoutFp16, SCALED, SCALED, SCALED, other, other, other, END)) == 1


@pytest.mark.parametrize(("calls", "findings"), [(1, 0), (2, 1), (5, 1)])
def test_two_backwards_in_a_region_are_worth_a_word(calls: int, findings: int) -> None:
    inside = replace(HALF, autocast="float16")
    assert len(said(BackwardUnderAutocast, *([inside] * calls))) == findings
    assert not said(BackwardUnderAutocast, *([HALF] * calls))


# -- PRC104 --


def rounded(*looks: tuple[float, float]) -> list[UpdateRounded]:
    return [
        replace(ROUNDED, index=2 << n, unchanged=share, learning_rate=rate) for n, (share, rate) in enumerate(looks)
    ]


@pytest.mark.parametrize(
    ("looks", "findings"),
    [
        ([(0.51, 1e-4)] * 3, 1),
        ([(0.51, 1e-4)] * 2, 0),
        ([(0.9, 1e-4), (0.9, 1e-4), (0.5, 1e-4)], 0),
        ([(0.99, 1e-5), (0.99, 2e-5), (0.99, 4e-5), (0.1, 1e-4), (0.1, 1e-4), (0.1, 1e-4)], 0),  # a warm-up
        ([(0.9, 1e-4)] * 3 + [(0.2, 4e-5)], 1),  # a decay counts for nothing either
        ([(0.9, 1e-4), (0.9, 5e-5), (0.9, 1e-4)], 1),
        ([(0.9, 1e-4), (0.9, 4.9e-5), (0.9, 1e-4)], 0),
    ],
)
def test_updates_that_round_to_nothing_at_the_full_rate(looks: list[tuple[float, float]], findings: int) -> None:
    events = rounded(*looks)
    assert not said(WeightsInHalfPrecision, *events)
    assert [finding.place for finding in said(WeightsInHalfPrecision, *events, END)] == [BUILT] * findings


def test_too_few_looks_are_said_to_be_too_few() -> None:
    checker = Checker([WeightsInHalfPrecision])
    for event in (*rounded((0.9, 1e-4)), END):
        checker.check(event)
    assert checker.not_applicable() == [("PRC104", "weights in half precision were updated too few times")]


# -- PRC105 --


@pytest.mark.parametrize(
    ("late", "steps", "interval", "findings"),
    [
        (4, 20, 2000, 0),
        (5, 20, 2000, 1),
        (5, 100, 2000, 0),
        (6, 100, 2000, 1),
        (20, 100, 10, 0),  # told to grow every ten steps, it may fail twice each time
        (21, 100, 10, 1),
    ],
)
def test_steps_left_out_after_the_search_for_a_scale(late: int, steps: int, interval: int, findings: int) -> None:
    event = replace(COUNTED, late_skipped=late, late_steps=steps, growth_interval=interval)
    assert len(said(GradScalerSkipsSteps, event, event)) == findings


def test_the_search_itself_is_free() -> None:
    assert not said(GradScalerSkipsSteps, replace(COUNTED, steps=20, skipped=20, late_steps=0, late_skipped=0))


def test_a_loss_that_is_no_number_explains_skipped_steps() -> None:
    cause = NotFinite(3, BACKWARD, "loss", "", "log", None, "nan", "loss", (0.1,))
    checker = Checker([NanOrInf, GradScalerSkipsSteps])
    checker.check(cause)
    checker.check(COUNTED)
    assert [finding.name for finding in checker.findings()] == ["nan-or-inf"]


# -- PRC106 --


@pytest.mark.parametrize(
    ("event", "findings"),
    [
        (MATMULS, 1),
        (replace(MATMULS, capability=(9, 0)), 1),
        (replace(MATMULS, capability=(7, 5)), 0),
        (replace(MATMULS, precision="tf32"), 0),
        (replace(MATMULS, gigaflops=0.99), 0),
        (replace(MATMULS, set_by_user=True), 0),
    ],
)
def test_float32_products_worth_a_setting(event: Matmuls, findings: int) -> None:
    found = said(Tf32Disabled, event)
    assert [finding.severity for finding in found] == [Severity.ADVICE] * findings


# -- PRC107 --


def backward(step: int, loss: float | None) -> Backward:
    return Backward(
        step, BACKWARD, step, loss, "NllLossBackward0", True, False, False, False, False, None, None, None, 4, None, None, "loss"  # noqa: E501
    )  # fmt: skip


def test_a_filtered_log_is_told_at_its_second_nan_and_where_the_framework_was_started() -> None:
    filtered = LogFiltered(0, BUILT, "transformers' Trainer", "logging_nan_inf_filter")
    assert not said(NanOrInfHidden, filtered, backward(0, math.nan), backward(1, 0.5), backward(2, None))
    assert [f.place for f in said(NanOrInfHidden, filtered, backward(0, math.nan), backward(1, math.inf))] == [BUILT]
    assert not said(NanOrInfHidden, backward(0, math.nan), backward(1, math.inf))


GUARDS = {
    "continue": ("if torch.isnan(loss):\n        continue", 1),
    "a reset first": ("if not torch.isfinite(loss):\n        optimizer.zero_grad()\n        continue", 1),
    "spelt by itself": ("if loss != loss:\n        continue", 1),
    "it prints": ("if torch.isnan(loss):\n        print('nan')\n        continue", 0),
    "it warns": ("if torch.isnan(loss):\n        logger.warning('nan')\n        continue", 0),
    "it counts": ("if torch.isnan(loss):\n        bad += 1\n        continue", 0),
    "it raises": ("if torch.isnan(loss):\n        raise RuntimeError('nan')", 0),
    "it leaves the loop": ("if torch.isnan(loss):\n        break", 0),
    "it does something of its own": ("if torch.isnan(loss):\n        mend(model)\n        continue", 0),
    "it has nothing to do with leaving out": ("if torch.isnan(loss):\n        loss = loss.detach()", 0),
    "another question": ("if step > 3:\n        continue", 0),
}


@pytest.mark.parametrize("name", GUARDS)
def test_a_guard_is_told_if_its_lines_say_nothing(name: str, tmp_path: Path) -> None:
    guard, findings = GUARDS[name]
    script = tmp_path / "train.py"
    text = (
        f"for step in range(9):\n    loss = criterion(model(x), y)\n    {guard}\n    loss.backward()\n    "
        "optimizer.step()\n"
    )
    script.write_text(text, encoding="utf-8")
    asked = LossHidden(1, Place(str(script), 2), "loss", "left out")
    found = said(NanOrInfHidden, asked, replace(asked, step=4))
    assert [finding.place.line for finding in found if finding.place] == [3] * findings


@pytest.mark.parametrize(
    ("left", "end", "findings"),
    [
        ("return", "pass", 1),
        ("return 0.0", "return loss.item()", 1),
        ("return None", "return loss.item()", 0),
        ("return", "return 1", 0),
    ],
)
def test_a_function_that_returns_none_may_tell_its_caller(left: str, end: str, findings: int, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        f"def update(x):\n    loss = net(x)\n    if torch.isnan(loss):\n        {left}\n    loss.backward()\n    "
        f"{end}\n",
        encoding="utf-8",
    )
    asked = LossHidden(1, Place(str(script), 3), "loss", "left out")
    assert len(said(NanOrInfHidden, asked, replace(asked, step=4))) == findings


@pytest.mark.parametrize(
    ("ahead", "findings"),
    [("pass", 1), ("value = loss.item()", 1), ("total += loss.item()", 0), ("log(loss.item())", 0)],
)
def test_a_value_that_reaches_a_log_before_the_guard_is_not_hidden(ahead: str, findings: int, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    text = (
        f"for x in data:\n    loss = net(x)\n    {ahead}\n    if torch.isnan(loss):\n        continue\n    "
        "loss.backward()\n"
    )
    script.write_text(text, encoding="utf-8")
    asked = LossHidden(1, Place(str(script), 4), "loss", "left out")
    assert len(said(NanOrInfHidden, asked, replace(asked, step=4))) == findings


def test_once_is_an_accident_and_so_are_many_gradients_of_one_step() -> None:
    replaced = LossHidden(1, Place("train.py", 2), "gradient", "replaced")
    assert not said(NanOrInfHidden, replaced, replaced, replaced)


# -- GRD109 --

CLIP = ClippedScaled(3, STEP, "clip_grad_norm_", 1.0, 65536.0, 0, BACKWARD)


@pytest.mark.parametrize(
    ("event", "severities"),
    [
        (CLIP, [Severity.ERROR]),
        (replace(CLIP, limit=65536.0), []),
        (replace(CLIP, limit=65535.0), [Severity.ERROR]),
        (replace(CLIP, scale=1.0, limit=0.5), []),
        (replace(CLIP, limit=math.inf), [Severity.WARNING]),
    ],
)
def test_a_limit_below_the_scale_is_an_error_and_no_limit_reads_a_wrong_norm(
    event: ClippedScaled, severities: list[Severity]
) -> None:
    assert not said(ClippedBeforeUnscale, event)
    assert [finding.severity for finding in said(ClippedBeforeUnscale, event, event, event)] == severities
