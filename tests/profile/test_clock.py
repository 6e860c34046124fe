"""The clock, told of moments by hand: whatever comes, in whichever order, a step is the sum of its phases."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from trueloop.profile.clock import ENOUGH, Clock, TimedStep, extend_to_busy, summary
from trueloop.results.profile import PHASES, Phase

CALL: Any = SimpleNamespace(grad=True)
QUIET: Any = SimpleNamespace(grad=False)


class Hand:
    """A clock whose time is moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, waited: Callable[[], float] | None = None) -> None:
        self.now = 1000
        monkeypatch.setattr("trueloop.profile.clock.perf_counter_ns", lambda: self.now)
        self.clock = Clock(waited)
        self.clock.counting = True

    def passes(self, ns: int) -> None:
        self.now += ns

    def step(self) -> dict[Phase, int]:
        """End the step; what took how long, without what took none."""
        self.clock.step_over()
        last = self.clock.steps[-1]
        assert sum(last.phases.values()) == last.ns
        return {phase: ns for phase, ns in last.phases.items() if ns}


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch) -> Hand:
    return Hand(monkeypatch)


def test_a_plain_step(hand: Hand) -> None:
    clock = hand.clock
    hand.passes(100)
    clock.batch_drawn(SimpleNamespace(waited_ns=90))  # type: ignore[arg-type]
    hand.passes(5)
    clock.module_call_started(CALL)
    hand.passes(30)
    clock.module_call_ended(CALL)
    hand.passes(9)
    output = SimpleNamespace(requires_grad=True)
    clock.loss_called(SimpleNamespace(output=output, began_ns=hand.now - 7))  # type: ignore[arg-type]
    clock.backward_started(CALL)
    hand.passes(60)
    clock.backward_ended(CALL)
    hand.passes(1)
    clock.step_started(CALL)
    hand.passes(20)
    clock.step_ended(CALL)
    assert hand.step() == {"data": 90, "forward": 37, "backward": 60, "optimizer": 20, "python": 10 + 5 + 2 + 1}


def test_what_happens_inside_another_phase_is_its_own(hand: Hand) -> None:
    clock = hand.clock
    clock.step_started(CALL)  # a closure
    hand.passes(10)
    clock.module_call_started(CALL)
    hand.passes(20)
    clock.read(hand.now - 5)
    clock.module_call_ended(CALL)
    clock.backward_started(CALL)
    hand.passes(40)
    clock.collective_called(CALL)
    hand.passes(3)
    clock.collective_ended(CALL)
    clock.backward_ended(CALL)
    clock.clip_started(CALL)
    hand.passes(2)
    clock.clip_ended(CALL)
    clock.step_ended(CALL)
    assert hand.step() == {"optimizer": 12, "forward": 15, "device": 5, "backward": 40, "communication": 3}


def test_evaluations_and_saves_have_phases_of_their_own(hand: Hand) -> None:
    clock = hand.clock
    clock.module_call_started(QUIET)
    hand.passes(8)
    clock.module_call_ended(QUIET)
    hand.passes(4)
    output = SimpleNamespace(requires_grad=False)
    clock.loss_called(SimpleNamespace(output=output, began_ns=hand.now - 4))  # type: ignore[arg-type]
    clock.state_saving(CALL)
    hand.passes(6)
    clock.state_saved(CALL)
    assert hand.step() == {"evaluating": 12, "saving": 6}
    assert not clock.steps[-1].ordinary


def test_a_phase_that_was_never_left_ends_with_the_step(hand: Hand) -> None:
    hand.clock.backward_started(CALL)  # it raised, and the user went on
    hand.passes(10)
    assert hand.step() == {"backward": 10}
    hand.passes(7)
    assert hand.step() == {"python": 7}


def test_an_end_without_a_beginning_does_no_harm(hand: Hand) -> None:
    hand.passes(5)
    hand.clock.backward_ended(CALL)
    hand.clock.step_ended(CALL)
    hand.passes(5)
    assert hand.step() == {"python": 10}


def test_a_wait_that_began_before_the_step_is_counted_from_its_beginning(hand: Hand) -> None:
    hand.passes(10)
    hand.clock.batch_drawn(SimpleNamespace(waited_ns=500))  # type: ignore[arg-type]
    assert hand.step() == {"data": 10}


def test_a_loop_of_our_own_tells_how_long_it_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = [0.0]
    hand = Hand(monkeypatch, lambda: waited[0])
    for total, expected in ((40e-9, 40), (100e-9, 60), (30e-9, 30)):  # it is set back to zero when it is told
        waited[0] = total
        hand.passes(100)
        hand.clock.module_call_started(CALL)
        hand.clock.module_call_ended(CALL)
        assert hand.step()["data"] == pytest.approx(expected, abs=1)


def test_pieces_are_kept_only_while_somebody_asks(hand: Hand) -> None:
    hand.passes(5)
    hand.step()
    assert hand.clock.spans == []
    hand.clock.recording = True
    start = hand.now
    hand.passes(5)
    hand.clock.module_call_started(CALL)
    hand.passes(6)
    hand.clock.module_call_ended(CALL)
    assert hand.clock.spans == [("python", start, start + 5), ("forward", start + 5, start + 11)]


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_moments_adds_up(seed: int) -> None:
    draws, clock = random.Random(seed), Clock()
    clock.counting = True
    moments = ("module_call", "backward", "step", "clip", "collective", "state")
    for _ in range(200):
        match draws.randrange(6):
            case 0:
                clock.batch_drawn(SimpleNamespace(waited_ns=draws.randrange(5000)))  # type: ignore[arg-type]
            case 1:
                clock.copied(time.perf_counter_ns() - draws.randrange(3000))
            case 2:
                clock.step_over()
            case _:
                name = draws.choice(moments)
                ending = draws.choice(("started", "ended"))
                verb = {"collective": ("called", "ended"), "state": ("saving", "saved")}.get(name, ("started", "ended"))
                getattr(clock, f"{name}_{verb[ending == 'ended']}")(draws.choice((CALL, QUIET)))
    assert clock.steps
    assert all(sum(step.phases.values()) == step.ns and min(step.phases.values()) >= 0 for step in clock.steps)


# -- the summary --


def timed(ns: int, **phases: int) -> TimedStep:
    every: dict[Phase, int] = dict.fromkeys(PHASES, 0)
    every.update(phases)  # type: ignore[arg-type]
    every["forward"] += ns - sum(every.values())
    return TimedStep(ns, every)


def test_the_phases_of_the_summary_add_up_to_its_step() -> None:
    steps = summary([timed(1000 + 10 * number, data=number) for number in range(40)])
    assert steps is not None
    assert sum(steps.phases.values()) == pytest.approx(steps.seconds)
    assert steps.median == pytest.approx(1195e-9)
    assert steps.p95 == pytest.approx(1380e-9)


def test_outliers_are_left_out_of_the_mean() -> None:
    steps = summary([*(timed(1000) for _ in range(18)), timed(10**9), timed(10**9)])
    assert steps is not None
    assert steps.seconds == pytest.approx(1e-6)


def test_steps_with_an_evaluation_are_told_apart_where_there_are_others() -> None:
    ordinary, other = [timed(1000) for _ in range(ENOUGH)], timed(9000, evaluating=8000)
    steps = summary([*ordinary, other])
    assert steps is not None
    assert (steps.count, steps.evaluations) == (ENOUGH, 1)
    assert steps.seconds == pytest.approx(1e-6)
    assert steps.evaluating == pytest.approx(8e-6)
    few = summary([*ordinary[1:], other])
    assert few is not None
    assert few.count == ENOUGH  # too few ordinary ones: all count


def test_no_steps_no_summary() -> None:
    assert summary([]) is None


def test_steps_that_were_sent_faster_than_the_device_took_them_took_as_long_as_it_did(hand: Hand) -> None:
    for _ in range(5):
        hand.passes(10)
        hand.clock.step_over()
    hand.clock.add_device_lag(2, 90)
    assert [step.ns for step in hand.clock.steps] == [10, 10, 40, 40, 40]
    assert [step.phases["device"] for step in hand.clock.steps] == [0, 0, 30, 30, 30]
    assert all(sum(step.phases.values()) == step.ns for step in hand.clock.steps)
    hand.clock.add_device_lag(5, 90)  # nothing was timed since
    assert len(hand.clock.steps) == 5


def test_no_step_is_shorter_than_what_the_device_does_in_it() -> None:
    found = summary([timed(10), timed(10), timed(10)])
    assert found is not None
    raised = extend_to_busy(found, 2 * found.seconds)
    assert raised.seconds == raised.median == raised.p95 == 2 * found.seconds
    assert sum(raised.phases.values()) == pytest.approx(raised.seconds)
    assert raised.phases["device"] == pytest.approx(found.seconds + found.phases["device"])
    assert extend_to_busy(found, found.seconds / 2) is found
