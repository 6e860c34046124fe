"""The budget: watched windows alternate with pauses, asleep nothing of ours is in the way, and waking up raises no
false alarm."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.conftest import check_script, in_child
from trueloop.finding import Severity
from trueloop.taps import registry
from trueloop.taps.bus import DEEP_BACKWARDS, DEEP_STEPS, Bus, StopTheRun
from trueloop.taps.calls import ProgramStart
from trueloop.taps.registry import FIRST_PAUSE, FIRST_WINDOW, LONGEST_PAUSE, WINDOW, TapRegistry


class _Listener:
    """Hears what the test asks about."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def watching_resumed(self, nothing: None) -> None:
        self.heard.append("watching_resumed")

    def module_call_ended(self, call: object) -> None:
        self.heard.append("call")

    def step_ended(self, call: object) -> None:
        self.heard.append("step")

    def mode_set(self, change: object) -> None:
        """Not of interest; but a tap without subscribers is not installed."""

    def loader_started(self, start: object) -> None:
        self.heard.append("loader")


class _Loop:
    def __init__(self, budget: float | None, last_step: int | None = None) -> None:
        self.listener = _Listener()
        self.bus = Bus(lambda _: None)
        self.bus.subscribe([self.listener])
        self.registry = TapRegistry(self.bus, budget, last_step)
        self.registry.install()
        self.model = nn.Linear(2, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def awake(self) -> bool:
        return self.bus.awake

    def run(self, steps: int) -> list[str]:
        """What is heard of so many steps."""
        self.listener.heard.clear()
        for _ in range(steps):
            self.model(torch.ones(3, 2)).sum().backward()
            self.optimizer.step()
        return self.listener.heard


def test_the_first_window_is_watched_then_comes_a_pause_then_a_window() -> None:
    def work() -> tuple[list[str], ...]:
        loop, usual = _Loop(budget=0.05), nn.Module.__call__
        first = list(loop.run(FIRST_WINDOW))
        assert not loop.awake()
        assert nn.Module.__call__ is not usual, "asleep, torch's own function is back in its place"
        pause = list(loop.run(FIRST_PAUSE))
        assert loop.awake()
        window = list(loop.run(WINDOW))
        assert not loop.awake()
        assert loop.registry.unwatched_steps == FIRST_PAUSE
        loop.registry.remove()
        return first, pause, window

    first, pause, window = in_child(work)
    assert first == ["call", "step"] * FIRST_WINDOW
    assert pause == ["watching_resumed"]
    assert window == ["call", "step"] * WINDOW


@pytest.mark.parametrize(("budget", "awake"), [(None, False), (1.0, True)])
def test_without_a_budget_the_first_steps_are_watched_and_with_all_of_it_every_step(
    budget: float | None, awake: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "FREE_STEPS", 20)
    monkeypatch.setattr(registry, "FREE_ON_HOST", 50)

    def work() -> tuple[list[str], bool]:
        loop = _Loop(budget=budget)
        heard = list(loop.run(50))
        still = loop.awake()
        loop.registry.remove()
        return heard, still

    assert in_child(work) == (["call", "step"] * 50, awake)


def test_powers_of_two_are_watched_in_a_long_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_uses_gpu", lambda: True)
    monkeypatch.setattr(registry, "FREE_STEPS", 64)
    monkeypatch.setattr(TapRegistry, "overhead", 2.0)

    def work() -> list[bool]:
        loop, awake = _Loop(budget=None), []
        for _ in range(600):
            awake.append(loop.awake())
            loop.run(1)
        loop.registry.remove()
        return awake

    awake = in_child(work)
    assert all(awake[:64])
    assert sum(awake) < 214
    assert awake[128]
    assert awake[256]
    assert awake[512]


def test_the_cost_is_at_least_the_time_in_observers() -> None:
    """Unwatched steps of another minute may have been slower."""
    judged = TapRegistry(Bus(lambda _: None), 0.05, None)
    judged._times = {True: [120] * 40, False: [130] * 40}
    judged._spent = [20] * 40
    assert judged.overhead == pytest.approx(0.2)


def test_operations_that_were_due_in_a_pause_are_published_after_it() -> None:
    def work() -> list[str]:
        heard: list[str] = []

        class Recorded:
            def program_started(self, start: ProgramStart) -> None:
                heard.append(f"{start.phase} {bus.step}")

            def operation_ended(self, call: object) -> None:
                """A tap without subscribers is not installed."""

        bus = Bus(lambda _: None)
        bus.subscribe([Recorded()])
        taps = TapRegistry(bus, 1.0, None)
        taps.install()
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(400):
            bus.awake = not 100 < step < 150
            model(torch.ones(3, 2)).sum().backward()
            optimizer.step()
        taps.remove()
        return heard

    assert in_child(work) == ["training 0", "training 1", "training 2", "training 23", "training 150", "training 359"]


def test_watching_that_costs_less_than_the_budget_goes_on_and_is_measured_again() -> None:
    def work() -> tuple[bool, bool, bool]:
        loop = _Loop(budget=0.5)
        loop.registry._times = {True: [110] * 200, False: [100] * 200}
        loop.run(FIRST_WINDOW)
        stays = loop.awake()
        loop.registry._times = {True: [110] * 10_000, False: [100] * 10_000}  # medians that a few steps do not move
        loop.bus.step = FIRST_WINDOW + LONGEST_PAUSE
        loop.run(1)
        pauses = not loop.awake()
        loop.run(WINDOW)
        again = loop.awake()
        loop.registry.remove()
        return stays, pauses, again

    assert in_child(work) == (True, True, True)


@pytest.mark.parametrize("what", ["evaluation", "optimizer"])
def test_an_evaluation_and_a_new_optimizer_wake_it(what: str) -> None:
    def work() -> bool:
        loop = _Loop(budget=0.05)
        loop.run(FIRST_WINDOW + 3)
        if what == "evaluation":
            loop.model.eval()
        else:
            torch.optim.SGD(loop.model.parameters(), lr=0.1)
        awake = loop.awake()
        loop.registry.remove()
        return awake

    assert in_child(work)


def test_after_some_evaluations_from_one_line_only_those_that_follow_a_long_pause_wake_it() -> None:
    def work() -> list[bool]:
        loop, awake = _Loop(budget=0.05), []
        for rested in (0, 0, 0, 0, 0, 19, 20):
            loop.registry._fall_asleep()
            loop.registry._next_change = loop.bus.step + 40
            loop.run(rested)
            loop.model.eval()
            awake.append(loop.awake())
        loop.registry.remove()
        return awake

    assert in_child(work) == [True, True, True, False, False, False, True]


def test_a_new_pass_over_data_wakes_it() -> None:
    def work() -> list[str]:
        loop = _Loop(budget=0.05)
        loop.run(FIRST_WINDOW + 3)
        loop.listener.heard.clear()
        list(DataLoader(TensorDataset(torch.ones(2, 2))))
        loop.model(torch.ones(1, 2))
        heard = list(loop.listener.heard)
        loop.registry.remove()
        return heard

    assert in_child(work) == ["watching_resumed", "loader", "call"]


@pytest.mark.parametrize(
    ("watched", "plain", "budget", "pause"),
    [
        (110, 100, 0.05, 2 * WINDOW),
        (125, 100, 0.05, 5 * WINDOW),
        (100, 100, 0.05, WINDOW),
        (900, 100, 0.0001, LONGEST_PAUSE),
    ],
)
def test_the_pause_follows_from_the_measured_cost(watched: int, plain: int, budget: float, pause: int) -> None:
    judged = TapRegistry(Bus(lambda _: None), budget, None)
    assert judged.overhead is None
    assert judged._pause() == FIRST_PAUSE
    judged._times = {True: [watched] * WINDOW, False: [plain] * WINDOW}
    assert judged.overhead == pytest.approx(watched / plain - 1)
    assert judged._pause() == pause


def test_steps_are_counted_asleep_too_and_the_last_one_ends_the_run() -> None:
    def work() -> int:
        loop = _Loop(budget=0.05, last_step=FIRST_WINDOW + 9)
        with pytest.raises(StopTheRun):
            loop.run(1000)
        loop.registry.remove()
        return loop.bus.step

    assert in_child(work) == FIRST_WINDOW + 9


def test_deep_looks_end_after_the_first_steps_and_come_again_when_asked() -> None:
    def work() -> list[bool]:
        loop, deep = _Loop(budget=None), []
        for step in range(2 * DEEP_STEPS + 2):
            deep.append(loop.bus.deep)
            loop.run(1)
            if step == DEEP_STEPS:
                loop.bus.allow_deep_steps()
        loop.registry.remove()
        return deep

    assert in_child(work) == [True] * DEEP_STEPS + [False] + [True] * DEEP_STEPS + [False]


HEALTHY = """
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(96, 8), torch.randint(0, 3, (96,)))
train, valid = DataLoader(data, batch_size=16, shuffle=True), DataLoader(data, batch_size=32)
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
extra = DataLoader(data, batch_size=8, shuffle=True)
for epoch in range({epochs}):
    model.train()
    for i, (x, y) in enumerate(train):
        loss = F.cross_entropy(model(x), y)
        {clear_before}
        loss.backward()
        if epoch % 3 == 1 and i == 2:
            more, labels = next(iter(extra))      # wakes the watch between a backward and its step
            F.cross_entropy(model(more), labels).backward()
        {between}
        optimizer.step()
        {clear_after}
    if epoch % 10 == 9:
        model.eval()
        with torch.no_grad():
            for x, y in valid:
                F.cross_entropy(model(x), y)
print(model[0].weight.sum().item())
"""


@pytest.mark.parametrize("clear", ["before", "after", "between_steps"])
def test_a_healthy_loop_of_four_hundred_steps_raises_no_alarm_though_it_sleeps(
    tmp_path: Path, clear: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "FIRST_PAUSE", 9)
    monkeypatch.setattr(registry, "LONGEST_PAUSE", 25)
    reset = "optimizer.zero_grad(set_to_none=False)" if clear == "after" else "optimizer.zero_grad()"
    words = {
        "clear_before": reset if clear == "before" else "",
        "clear_after": "" if clear == "before" else reset,
        "between": "",
    }
    checked = check_script(tmp_path, HEALTHY.format(epochs=67, **words), budget=0.01)
    assert checked.verdict.outcome.reason == "finished", checked.output
    assert checked.verdict.watched.steps == 402
    assert checked.verdict.watched.unwatched_steps > 20
    assert not checked.verdict.failures
    assert [f.message for f in checked.findings if f.severity > Severity.ADVICE] == []


def test_deep_looks_end_after_some_backwards_though_no_optimizer_steps() -> None:
    bus, deep = Bus(lambda _: None), []
    for _ in range(DEEP_BACKWARDS):
        deep.append(bus.deep)
        bus.count_backward()
    assert all(deep)
    ended = bus.deep
    bus.allow_deep_steps()
    assert [ended, bus.deep] == [False, True]
