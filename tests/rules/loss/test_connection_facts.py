"""loss-detached-from-parameters on facts written by constructed events: each threshold from both sides."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from trueloop.event import Backward, Event, ParameterAccount, ParametersAccounted, Place, RunEnded, Stepped
from trueloop.finding import Finding
from trueloop.rules.checker import Checker
from trueloop.rules.loss.loss_detached_from_parameters import LossDetachedFromParameters

BACKWARD = Place("train.py", 8)
STEP = Place("train.py", 9)
CUT = Place("model.py", 5)
END = RunEnded(20, None, "finished", 1, 20, 0)
LOST = ParameterAccount("encoder.weight", 24, True, True, False, True, True, None, (CUT,))


def findings_of(*events: Event) -> list[Finding]:
    checker = Checker([LossDetachedFromParameters])
    for event in events:
        checker.check(event)
    assert not checker.failures
    return checker.findings()


def backward(reached: int | None) -> Backward:
    return Backward(0, BACKWARD, 0, 0.5, "", False, False, False, False, False, 0, 0, reached, 4, None, None, "loss")


def stepped(gradients: Literal["new", "none"]) -> Stepped:
    return Stepped(0, STEP, 0, "SGD", 0, gradients, True, 1, (BACKWARD,), 1, True, False, False, (0.1,), False)


def accounted(
    steps: int, *accounts: ParameterAccount, in_order: int = 2, cuts: tuple[Place, ...] = ()
) -> ParametersAccounted:
    return ParametersAccounted(steps, STEP, 0, "Net", steps, accounts, in_order, 0, (), None, cuts)


@pytest.mark.parametrize(("times", "at_once", "at_the_end"), [(3, 1, 1), (2, 0, 1), (1, 0, 0)])
def test_a_detached_loss_is_reported_after_three_steps_or_at_the_end_of_two(
    times: int, at_once: int, at_the_end: int
) -> None:
    events = [backward(0), stepped("none")] * times
    assert len(findings_of(*events)) == at_once
    assert len(findings_of(*events, END)) == at_the_end


def test_one_backward_that_reaches_something_or_cannot_be_followed_clears_the_loss() -> None:
    bare = [backward(0), stepped("none")] * 4
    assert not findings_of(backward(2), stepped("new"), *bare, END)
    assert not findings_of(backward(None), stepped("new"), *bare, END)
    assert not findings_of(backward(0), stepped("new"), *bare, END)


def test_it_is_reported_at_the_only_cut_and_otherwise_at_the_backward() -> None:
    bare = [backward(0), stepped("none")]
    (at_the_cut,) = findings_of(*bare, *bare, accounted(2, cuts=(CUT,)), *bare)
    (at_the_backward,) = findings_of(*bare, *bare, accounted(2, cuts=(CUT, STEP)), *bare)
    assert (at_the_cut.place, at_the_backward.place) == (CUT, BACKWARD)


@pytest.mark.parametrize(("steps", "findings"), [(5, 1), (4, 0)])
def test_a_part_without_a_gradient_is_reported_after_five_steps(steps: int, findings: int) -> None:
    found = findings_of(backward(2), stepped("new"), accounted(steps, LOST))
    assert [finding.place for finding in found] == [CUT] * findings


def test_a_part_is_reported_only_if_a_line_explains_it_and_others_are_trained() -> None:
    assert not findings_of(accounted(5, replace(LOST, cuts=())))
    assert not findings_of(accounted(5, replace(LOST, ran_with_graph=False)))
    assert not findings_of(accounted(5, replace(LOST, held=False)))
    assert not findings_of(accounted(5, LOST, in_order=0))
