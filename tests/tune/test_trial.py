"""A trial's side of the talk, in this very process: what it is told, what it answers, and how it says that it
failed."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.tune.worlds import FILE, recipe
from trueloop.errors import BadRecipe
from trueloop.recipe.recipe import DataRequest
from trueloop.tune.process import TrialSpec
from trueloop.tune.timing import WARM, Controller, Enough, TrialRecipe, calibrate_interval, drive
from trueloop.tune.trial import FEWEST, Channel, _is_memory, _message, variant, work


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Under a name of its own: a file of a recipe is a module while it is used."""
    import sys

    monkeypatch.setattr(sys, "path", list(sys.path))
    made = tmp_path / "talking.py"
    made.write_text(FILE, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "talking", raising=False)
    return str(made)


@pytest.fixture(autouse=True)
def _forgotten() -> Any:
    import sys

    yield
    sys.modules.pop("talking", None)


def talked(spec: TrialSpec, *orders: dict[str, Any]) -> list[dict[str, Any]]:
    """What it answers to these orders; then nobody is there any more."""
    told = io.StringIO()
    work(spec, Channel(io.StringIO("".join(json.dumps(order) + "\n" for order in orders)), told))
    return [json.loads(line) for line in told.getvalue().splitlines()]


def test_it_is_ready_trains_proves_and_stops(file: str) -> None:
    window = {"do": "window", "seconds": 0.0}
    prove = {"do": "prove", "order": {"steps": 6, "seeds": 1}}
    said = talked(TrialSpec(file, log_every=2), window, prove, window, {"do": "stop"})
    assert [next(iter(each)) for each in said] == ["ready", "window", "proof", "window"]
    assert said[0]["ready"]["every"] == 2
    assert len(said[1]["window"]) == FEWEST  # the first of them is not counted
    assert said[2]["proof"]["steps"] == 6
    assert len(said[2]["proof"]["gradients"]) == 2


def test_without_an_order_it_ends(file: str) -> None:
    assert [next(iter(each)) for each in talked(TrialSpec(file, log_every=2))] == ["ready"]


def test_it_finds_out_by_itself_how_often_to_look(file: str) -> None:
    assert 1 <= talked(TrialSpec(file))[0]["ready"]["every"] <= 50


def test_a_window_is_as_long_as_asked(file: str) -> None:
    said = talked(TrialSpec(file, log_every=1), {"do": "window", "seconds": 0.05})
    assert sum(said[1]["window"]) > 0.0
    assert len(said[1]["window"]) > 1


def test_settings_come_first_and_changes_on_top(file: str) -> None:
    spec = TrialSpec(file, settings={"lr": "0.5", "threads": "2"}, changes={"threads": 1})
    made = variant(spec, spec.changes)
    assert (made.lr, made.threads, made.name) == (0.5, 1, "small")
    assert variant(spec, {}).threads == 2


def test_a_training_that_ends_by_itself_is_no_measure(file: str) -> None:
    Path(file).write_text(
        FILE.replace("nn.Dropout(0.2)", "nn.Threshold(-1e9, float('nan')), Bad()").replace(
            "def network",
            "class Bad(nn.Module):\n    def forward(self, x):\n        return x / 0 - x / 0\n\n\ndef network",
        )
    )
    with pytest.raises(RuntimeError, match="the training ended early"):
        talked(TrialSpec(file, log_every=2))


def test_errors_are_told_in_one_line() -> None:
    assert _message(ValueError("first\nsecond")) == "ValueError: first"
    assert _message(KeyError()) == "KeyError"
    assert (
        _message(BadRecipe("The recipe cannot be trained:\n  - this.\n  - that."))
        == "The recipe cannot be trained: - this. - that."
    )


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("shapes do not fit"), False),
    ],
)
def test_a_full_memory_is_known_by_its_words(error: Exception, memory: bool) -> None:
    assert _is_memory(error) is memory


def test_a_line_that_nobody_speaks_on_means_stop() -> None:
    assert Channel(io.StringIO(""), io.StringIO()).receive() == {"do": "stop"}


# -- the clock --


class Counting(Controller):
    def __init__(self, enough: int) -> None:
        self.enough, self.warmed, self.seen = enough, 0, 0

    def warm(self, per_step: float, samples: float) -> None:
        self.warmed += 1
        assert per_step > 0
        assert samples == 32

    def interval(self, per_step: float) -> None:
        self.seen += 1
        assert per_step > 0
        if self.seen == self.enough:
            raise Enough


def test_the_clock_warms_up_once_and_then_tells_every_interval() -> None:
    desk = Counting(5)
    assert drive(TrialRecipe(recipe(), DataRequest()), 3, desk) is None
    assert (desk.warmed, desk.seen) == (1, 5)


def test_time_at_the_desk_is_not_the_trainings() -> None:
    from time import perf_counter, sleep

    class Slow(Controller):
        counted = slept = 0.0

        def rest(self) -> None:
            before = perf_counter()
            sleep(0.3)
            self.slept += perf_counter() - before

        def warm(self, per_step: float, samples: float) -> None:
            self.rest()

        def interval(self, per_step: float) -> None:
            self.counted += per_step
            self.rest()
            if self.counted > 0 and self.slept > 1.0:
                raise Enough

    began, desk = perf_counter(), Slow()
    drive(TrialRecipe(recipe(), DataRequest()), 1, desk)
    assert desk.counted <= perf_counter() - began - desk.slept


def test_a_calibration_is_over_soon() -> None:
    assert 1 <= calibrate_interval(TrialRecipe(recipe(), DataRequest())) <= 50
    assert WARM >= 1
