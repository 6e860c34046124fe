"""Optimizers that are thrown away, and frozen parameters that move, on constructed events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trueloop.event import SHORT_LIFE, Event, FrozenMoved, FrozenStatisticsMoved, OptimizerRebuilt, Place
from trueloop.finding import Finding, Severity
from trueloop.rules.checker import Checker
from trueloop.rules.optimizer.frozen_layer_updated import FrozenLayerUpdated
from trueloop.rules.optimizer.optimizer_recreated_every_step import OptimizerRecreatedEveryStep
from trueloop.rules.rule import Rule
from trueloop.rules.shared_thresholds import DROPPED_IN_A_ROW

BUILT = Place("gone.py", 4, "train")
REBUILT = OptimizerRebuilt(
    step=1,
    place=BUILT,
    parameter_set=1,
    name="Adam",
    steps=1,
    parameters_with_state=4,
    closure=False,
    weights_continue=True,
)
MOVED = FrozenMoved(
    step=6, place=BUILT, optimizer=0, name="SGD", parameters=("0.weight",), moved=1, frozen=2, gradients="zero", change=0.1, decay=0.01,  # noqa: E501
    momentum=True,
)  # fmt: skip
DRIFTED = FrozenStatisticsMoved(step=3, place=BUILT, model="Net", layers=("0.1",), count=1, steps=2, change=0.2)


def said(rule: type[Rule], *events: Event) -> list[Finding]:
    checker = Checker([rule])
    for event in events:
        checker.check(event)
    assert not checker.failures
    return checker.findings()


def test_it_takes_three_in_a_row() -> None:
    assert len(said(OptimizerRecreatedEveryStep, *[REBUILT] * DROPPED_IN_A_ROW)) == 1
    assert not said(OptimizerRecreatedEveryStep, *[REBUILT] * (DROPPED_IN_A_ROW - 1))
    longer = replace(REBUILT, steps=SHORT_LIFE + 1)
    assert not said(OptimizerRecreatedEveryStep, *([REBUILT] * (DROPPED_IN_A_ROW - 1) + [longer]) * 2)
    other = replace(REBUILT, parameter_set=2)
    assert not said(OptimizerRecreatedEveryStep, REBUILT, REBUILT, other, other)


@pytest.mark.parametrize(("steps", "count"), [(SHORT_LIFE, 1), (SHORT_LIFE + 1, 0)])
def test_two_steps_are_a_short_life_and_three_are_not(steps: int, count: int) -> None:
    assert len(said(OptimizerRecreatedEveryStep, *[replace(REBUILT, steps=steps)] * DROPPED_IN_A_ROW)) == count


@pytest.mark.parametrize(
    "event",
    [
        replace(REBUILT, parameters_with_state=0),
        replace(REBUILT, closure=True),
        replace(REBUILT, weights_continue=False),
    ],
    ids=["no state", "a closure", "other weights"],
)
def test_nothing_lost_is_nothing_said(event: OptimizerRebuilt) -> None:
    assert not said(OptimizerRecreatedEveryStep, *[event] * DROPPED_IN_A_ROW)


@pytest.mark.parametrize(
    ("lines", "moved"),
    [
        ("for x in data:\n    optimizer = Adam(model.parameters(), lr=rate)\n    optimizer.step()", True),
        ("for rate in rates:\n    optimizer = Adam(model.parameters(), lr=rate)\n    optimizer.step()", False),
        ("for x in data:\n    optimizer = Adam(model.parameters(), lr=next(rates))\n    optimizer.step()", False),
        ("for x in data:\n    optimizer = Adam(model.parameters())\n    optimizer = wrap(optimizer)", False),
        ("def f():\n    optimizer = Adam(model.parameters())\n    optimizer.step()", False),
    ],
    ids=["a plain loop", "a rate of the loop's", "a call that gives another value", "a name given twice", "no loop"],
)
def test_the_line_is_moved_only_where_it_means_the_same(lines: str, moved: bool, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(lines + "\n", encoding="utf-8")
    (finding,) = said(
        OptimizerRecreatedEveryStep, *[replace(REBUILT, place=Place(str(script), 2, ""))] * DROPPED_IN_A_ROW
    )
    assert bool(finding.diff) is moved


def test_of_two_loops_it_leaves_both_where_it_may(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    inner = "        for x in data:\n            o = Adam(net.parameters())\n            o.step()\n"
    text = f"for fold in folds:\n    net = make()\n    for epoch in epochs:\n{inner}"
    script.write_text(text, encoding="utf-8")
    (finding,) = said(
        OptimizerRecreatedEveryStep, *[replace(REBUILT, place=Place(str(script), 5, ""))] * DROPPED_IN_A_ROW
    )
    assert "+    o = Adam(net.parameters())\n     for epoch in epochs:" in finding.diff


# -- frozen --


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (MOVED, "weight decay 0.01 and momentum"),
        (replace(MOVED, decay=0.0, gradients="stale"), "an old gradient and momentum"),
        (replace(MOVED, decay=0.0, momentum=False, parameters=("",)), "parameters of an unknown model"),
    ],
)
def test_it_says_what_moves_the_frozen(event: FrozenMoved, words: str) -> None:
    (finding,) = said(FrozenLayerUpdated, event)
    assert finding.severity is Severity.ERROR
    assert words in finding.message


def test_statistics_that_drift_are_a_warning() -> None:
    (finding,) = said(FrozenLayerUpdated, DRIFTED)
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ("for p in net.parameters():\n    p.requires_grad = False\noptimizer.step()", 2),
        ("encoder.requires_grad_(False).eval()\noptimizer.step()", 1),
        ("a.requires_grad_(False)\nb.requires_grad_(False)\noptimizer.step()", 3),
        ("a.requires_grad_(True)\nb.requires_grad = True\noptimizer.step()", 3),
    ],
)
def test_the_line_is_that_which_freezes_if_there_is_one(lines: str, place: int, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(lines + "\n", encoding="utf-8")
    (finding,) = said(FrozenLayerUpdated, replace(MOVED, place=Place(str(script), len(lines.splitlines()), "train")))
    assert finding.place is not None
    assert finding.place.line == place
