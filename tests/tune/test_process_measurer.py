"""The bench with processes that only pretend: turns, limits, what is kept alive, and what a proof is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.tune.test_agreement import curve, falling, gradients
from trueloop.results.tune import Changes
from trueloop.tune import process_measurer as benches
from trueloop.tune.process import TrialFailed, TrialSpec
from trueloop.tune.process_measurer import DEVICE_SHARE, MORE_TURNS, STEPS, TOGETHER, TURNS, ProcessMeasurer

World = Callable[[Changes], list[float]]


class Pretended:
    """As a Process: answers at once, by a world of step times, one for each turn."""

    world: World = staticmethod(lambda _: [1e-3])
    peaks: Callable[[Changes], int] = staticmethod(lambda _: 10**8)
    fails: set[str] = set()
    log: list[str] = []
    made: list[Pretended] = []

    def __init__(self, spec: TrialSpec, memory: int) -> None:
        self.spec, self.memory, self.peak, self.turns, self.orders, self.ended = spec, memory, 0, 0, [], False
        self.made.append(self)

    @property
    def name(self) -> str:
        return ",".join(f"{key}={value}" for key, value in self.spec.changes.items()) or "reference"

    def listen(self, until: float) -> dict[str, Any]:
        if self.name in self.fails:
            raise TrialFailed(f"{self.name} crashed")
        samples = float(self.spec.changes.get("batch", 64))
        return {"ready": {"start": 2.0, "every": self.spec.log_every or 8, "step": 1e-3, "samples": samples}}

    orders: list[dict[str, Any]]

    def ask(self, order: dict[str, Any], until: float) -> dict[str, Any]:
        if order["do"] == "prove":
            self.orders.append(order["order"])
            steps = order["order"]["steps"]
            shown = {"steps": steps, "curve": curve(falling), "moved": [], "gradients": gradients(), "metrics": [0.9]}
            return {"proof": {**shown, "metric": "accuracy", "higher": True, "ended": ""}}
        times = self.world(self.spec.changes)
        seconds = times[min(self.turns, len(times) - 1)]
        self.turns += 1
        self.log.append(self.name)
        if seconds < 0:
            raise TrialFailed(f"{self.name} killed by SIGKILL")
        return {"window": [9.9, seconds, seconds], "peak": type(self).peaks(self.spec.changes)}

    def end(self) -> None:
        self.ended = True


@pytest.fixture(autouse=True)
def _pretending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benches, "Process", Pretended)
    Pretended.world, Pretended.peaks = staticmethod(lambda _: [1e-3]), staticmethod(lambda _: 10**8)
    Pretended.fails, Pretended.log, Pretended.made = set(), [], []


def bench(**more: Any) -> ProcessMeasurer:
    made = ProcessMeasurer(TrialSpec("any"), seconds=300.0, seeds=2, **more)
    made.pace({}, None)
    Pretended.log.clear()
    return made


def of(**times: list[float]) -> None:
    """Step times by the field that a trial changes."""
    Pretended.world = staticmethod(lambda changes: next((times[name] for name in changes if name in times), [1e-3]))


def test_the_best_and_its_challenger_take_turns() -> None:
    of(threads=[0.5e-3])
    made = bench().pace({"threads": 1}, {})
    assert Pretended.log == ["threads=1", "reference"] * TURNS
    assert made.faster == pytest.approx(2.0)
    assert made.sure
    assert made.pace.samples_per_second == pytest.approx(64 / 0.5e-3)
    assert (made.pace.windows, made.pace.start_seconds, made.pace.spread) == (TURNS, 2.0, 0.0)


def test_a_machine_that_is_slow_for_a_minute_is_slow_for_both() -> None:
    """Each turn twice as slow as the one before: the ratio of neighbours stays."""
    Pretended.world = staticmethod(lambda changes: [(1e-3 if changes else 2e-3) * 2**turn for turn in range(20)])
    here = ProcessMeasurer(TrialSpec("any"), seconds=300.0, seeds=1)
    here.pace({}, None)
    Pretended.made[0].turns = 0
    assert here.pace({"threads": 1}, {}).faster == pytest.approx(2.0)


def test_who_is_hopeless_gets_no_more_turns() -> None:
    of(threads=[5e-3])
    bench().pace({"threads": 1}, {})
    assert Pretended.log.count("threads=1") == 3


def test_turns_that_leave_it_open_are_followed_by_more() -> None:
    of(threads=[0.98e-3, 1.03e-3, 0.99e-3, 1.02e-3, 0.98e-3, 1.0e-3])
    made = bench().pace({"threads": 1}, {})
    assert Pretended.log.count("threads=1") == MORE_TURNS
    assert not made.sure


def test_the_first_interval_of_a_turn_does_not_count() -> None:
    """It comes back to caches that the other has used: 9.9 seconds in every window here."""
    assert bench().pace({"threads": 1}, {}).pace.step_seconds == 1e-3


def test_a_larger_batch_is_faster_by_its_samples() -> None:
    of(batch=[1e-3])
    made = bench().pace({"batch": 128}, {})
    assert made.faster == pytest.approx(2.0)


def test_a_challenger_that_crashes_is_forgotten_and_the_best_stays() -> None:
    of(threads=[1e-3, -1.0])
    here = bench()
    with pytest.raises(TrialFailed, match="threads=1 killed by SIGKILL"):
        here.pace({"threads": 1}, {})
    assert Pretended.made[-1].ended
    assert not Pretended.made[0].ended
    assert here.pace({"accumulate": 2}, {}).faster == pytest.approx(1.0)


def test_one_that_never_starts_is_ended_too() -> None:
    Pretended.fails = {"threads=1"}
    here = bench()
    with pytest.raises(TrialFailed, match="threads=1 crashed"):
        here.pace({"threads": 1}, {})
    assert Pretended.made[-1].ended


def test_the_best_begins_anew_when_its_training_is_over() -> None:
    here = bench()
    Pretended.world = staticmethod(
        lambda changes: [0.5e-3] if changes else [-1.0] if Pretended.made[-1].spec.changes else [1e-3]
    )
    assert here.pace({"threads": 1}, {}).faster == pytest.approx(2.0)
    assert [process.name for process in Pretended.made] == ["reference", "threads=1", "reference"]


def test_all_trials_are_timed_with_the_interval_of_the_reference() -> None:
    bench().pace({"threads": 1}, {})
    assert [process.spec.log_every for process in Pretended.made] == [0, 8]


# -- memory --


def test_a_trial_may_have_what_the_other_leaves_of_the_device() -> None:
    Pretended.peaks = staticmethod(lambda _: 10 * 10**9)
    bench(device_memory=100 * 10**9).pace({"threads": 1}, {})
    assert [process.spec.fraction for process in Pretended.made] == pytest.approx([DEVICE_SHARE, DEVICE_SHARE - 0.1])


def test_one_that_is_too_large_to_stay_is_compared_by_its_numbers_from_before() -> None:
    Pretended.peaks = staticmethod(lambda _: int((TOGETHER + 0.1) * 10**11))
    of(threads=[0.5e-3])
    here = bench(device_memory=10**11)
    here.keep({})
    assert Pretended.made[0].ended
    made = here.pace({"threads": 1}, {})
    assert Pretended.log == ["threads=1"] * TURNS
    assert made.faster == pytest.approx(2.0)
    assert Pretended.made[-1].spec.fraction == DEVICE_SHARE  # it has the device for itself


def test_only_the_best_is_kept_alive() -> None:
    here = bench()
    here.pace({"threads": 1}, {})
    here.keep({"threads": 1})
    assert [process.ended for process in Pretended.made] == [True, False]
    here.close()
    assert all(process.ended for process in Pretended.made)


# -- proofs --


def test_the_reference_shows_its_yardsticks_once() -> None:
    here = bench()
    assert Pretended.made[0].orders == [{"steps": STEPS[1], "seeds": 2, "moved": benches.MOVED, "gradients": False}]
    here.pace({"threads": 1}, {})
    assert here.agreement({"threads": 1}).same
    assert Pretended.made[1].orders == [{"steps": STEPS[1], "seeds": 2}]
    assert len(Pretended.made[0].orders) == 1


@pytest.mark.parametrize(("seconds", "steps"), [(1e-3, STEPS[1]), (0.2, 36), (10.0, STEPS[0])])
def test_a_proof_is_as_long_as_the_budget_lets_it(seconds: float, steps: int) -> None:
    Pretended.world = staticmethod(lambda _: [seconds])
    here = bench()
    assert here.steps == steps


def test_another_batch_is_proved_by_the_same_number_of_samples() -> None:
    here = bench()
    here.pace({"batch": 256}, {})
    here.agreement({"batch": 256})
    assert Pretended.made[1].orders == [{"steps": STEPS[1] // 4, "seeds": 2, "curve": False, "gradients": False}]


def test_a_trial_that_has_gone_is_started_again_for_its_proof() -> None:
    here = bench()
    here.pace({"threads": 1}, {})
    here.keep({})
    assert here.agreement({"threads": 1}).same
    assert [process.name for process in Pretended.made] == ["reference", "threads=1", "threads=1"]
