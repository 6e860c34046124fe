"""Parameters against optimizers, on constructed events: each threshold from both sides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trueloop.event import Event, ParameterAccount, ParametersAccounted, Place, RunEnded
from trueloop.finding import Finding, Severity
from trueloop.rules.checker import Checker
from trueloop.rules.optimizer.optimizer_holds_old_parameters import OptimizerHoldsOldParameters
from trueloop.rules.optimizer.parameters_not_in_optimizer import ParametersNotInOptimizer

STEP = Place("train.py", 9)
BUILT = Place("train.py", 4)
END = RunEnded(20, None, "finished", 1, 20, 0)
FORGOTTEN = ParameterAccount("head.weight", 24, True, False, True, True, True, None, ())


def accounted(steps: int, *accounts: ParameterAccount, in_order: int = 4, orphans: int = 0) -> ParametersAccounted:
    return ParametersAccounted(steps, STEP, 0, "Net", steps, accounts, in_order, orphans, (8,) * orphans, BUILT, ())


def said(*events: Event) -> list[Finding]:
    checker = Checker([ParametersNotInOptimizer, OptimizerHoldsOldParameters])
    for event in events:
        checker.check(event)
    assert not checker.failures
    return checker.findings()


@pytest.mark.parametrize(("steps", "at_once", "at_the_end"), [(5, 1, 1), (4, 0, 1), (3, 0, 1), (2, 0, 0)])
def test_a_forgotten_parameter_is_told_after_five_steps_or_at_the_end_of_three(
    steps: int, at_once: int, at_the_end: int
) -> None:
    event = accounted(steps, FORGOTTEN)
    assert len(said(event)) == at_once
    assert len(said(event, END)) == at_the_end


def test_it_is_told_where_the_optimizer_was_built_else_where_it_steps() -> None:
    assert said(accounted(5, FORGOTTEN))[0].place == BUILT
    assert said(replace(accounted(5, FORGOTTEN), optimizer_place=None))[0].place == STEP


def test_a_model_that_no_optimizer_knows_is_looked_through_not_trained() -> None:
    assert not said(accounted(5, FORGOTTEN, in_order=0))


def test_leaving_out_most_of_a_model_is_a_warning_and_a_part_an_error() -> None:
    few = said(accounted(5, FORGOTTEN, replace(FORGOTTEN, name="head.bias"), in_order=2))
    many = said(accounted(5, FORGOTTEN, replace(FORGOTTEN, name="head.bias"), in_order=1))
    assert [finding.severity for finding in (*few, *many)] == [Severity.ERROR, Severity.WARNING]


def test_orphans_explain_what_nobody_holds() -> None:
    assert [finding.name for finding in said(accounted(5, FORGOTTEN, orphans=2))] == ["optimizer-holds-old-parameters"]
    assert not said(accounted(5, orphans=2))


def test_orphans_are_told_at_the_end_of_a_short_run() -> None:
    assert not said(accounted(2, FORGOTTEN, orphans=2))
    assert len(said(accounted(2, FORGOTTEN, orphans=2), END)) == 1
