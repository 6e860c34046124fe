"""weights-updated-outside-optimizer on facts: each threshold from both sides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trueloop.event import ChangedWeight, Place, WeightsCompared
from trueloop.finding import Finding
from trueloop.rules.checker import Checker
from trueloop.rules.gradient.weights_updated_outside_optimizer import LOOKS, WeightsUpdatedOutsideOptimizer

STEP = Place("gone.py", 9, "train")
BY_GRADIENT = ChangedWeight(
    "fc.weight", explained=True, gradient_factor=-0.01, weight_factor=0.0, gradient_share=1.0, weight_decay=0.0
)
BY_DECAY = ChangedWeight(
    "fc.weight", explained=True, gradient_factor=0.0, weight_factor=-0.001, gradient_share=0.0, weight_decay=0.05
)


def compared(*written: ChangedWeight, place: Place = STEP) -> WeightsCompared:
    return WeightsCompared(step=1, place=place, optimizer=0, name="Adam", index=0, compared=3, changed=written)


def findings_of(*events: WeightsCompared) -> list[Finding]:
    checker = Checker([WeightsUpdatedOutsideOptimizer])
    for event in events:
        checker.check(event)
    assert not checker.failures
    return checker.findings()


@pytest.mark.parametrize("weight", [BY_GRADIENT, BY_DECAY])
def test_it_takes_three_looks_that_all_show_it(weight: ChangedWeight) -> None:
    event = compared(weight)
    assert len(findings_of(*[event] * LOOKS)) == 1
    assert not findings_of(*[event] * (LOOKS - 1))
    assert not findings_of(compared(), *[event] * LOOKS)
    assert not findings_of(*[event] * (LOOKS - 1), compared(replace(weight, explained=False)))


@pytest.mark.parametrize(
    "weight",
    [
        replace(BY_GRADIENT, explained=False),
        replace(BY_GRADIENT, gradient_factor=0.01),
        replace(BY_GRADIENT, gradient_share=0.009),
        replace(BY_DECAY, weight_decay=0.0),
        replace(BY_DECAY, weight_factor=0.001),
        replace(BY_DECAY, weight_factor=-0.5),
    ],
    ids=["not explained", "uphill", "rounding", "the optimizer does not decay", "growth", "a norm"],
)
def test_other_changes_are_not_reported(weight: ChangedWeight) -> None:
    assert not findings_of(*[compared(weight)] * LOOKS)


@pytest.mark.parametrize("share", [0.01, 1.0])
def test_a_step_with_decay_of_its_own_is_a_step(share: float) -> None:
    weight = replace(BY_GRADIENT, gradient_share=share, weight_factor=-0.02)
    assert "times their gradient" in findings_of(*[compared(weight)] * LOOKS)[0].message


@pytest.mark.parametrize(("other", "count"), [(-0.001009, 1), (-0.00102, 0)])
def test_a_decay_has_one_factor(other: float, count: int) -> None:
    events = [compared(BY_DECAY), compared(replace(BY_DECAY, weight_factor=other)), compared(BY_DECAY)]
    assert len(findings_of(*events)) == count
    assert len(findings_of(*[compared(BY_DECAY, replace(BY_DECAY, weight_factor=other))] * LOOKS)) == count


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ("for p in net.parameters():\n    p.data -= lr * p.grad\noptimizer.step()", 2),
        ("p.data.add_(p.grad, alpha=-lr)\noptimizer.step()", 1),
        ("p.data = p.data - lr * p.grad\noptimizer.step()", 1),
        ("p.grad.mul_(0.5 * q.grad)\np.grad /= q.grad\ng = p.grad\nh.copy_(p)\noptimizer.step()", 5),
        ("a.data -= a.grad\nb.data -= b.grad\noptimizer.step()", 3),
    ],
    ids=["in place", "a method", "assigned", "writes to gradients", "two lines"],
)
def test_the_line_is_that_which_writes_if_there_is_one(lines: str, place: int, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(lines + "\n", encoding="utf-8")
    step = Place(str(script), len(lines.splitlines()), "train")
    (finding,) = findings_of(*[compared(BY_GRADIENT, place=step)] * LOOKS)
    assert finding.place is not None
    assert finding.place.line == place


def test_it_says_when_there_were_too_few_steps() -> None:
    checker = Checker([WeightsUpdatedOutsideOptimizer])
    checker.check(compared())
    assert checker.not_applicable() == [("GRD112", "no optimizer took 4 steps")]
