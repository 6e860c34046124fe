"""The observers of the speed rules, on moments made by hand, and the taps below them on a device that is only made
believe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.conftest import check_script, in_child
from trueloop.doctor.watch import Watch
from trueloop.event import BatchesAwaited, BatchesCopied, DeviceReads, DeviceWorked, Event, Place, UpdatePath
from trueloop.observers import data_wait, transfers
from trueloop.observers.data_wait import ENOUGH, FIRST_STEP, DataWaitObserver
from trueloop.observers.device_work import DeviceWorkObserver
from trueloop.observers.observer import Observer
from trueloop.observers.optimizer_settings import UpdatePathObserver
from trueloop.observers.run_objects import RunObjects
from trueloop.observers.transfers import CopiesObserver, ReadsObserver
from trueloop.taps.bus import Bus
from trueloop.taps.calls import TRANSFER_WINDOWS, BatchDrawn, DeviceCopy, DeviceRead, LoaderStart, RunEnd, StepCall

HERE = Place("train.py", 7, "train")
END = RunEnd("finished")


class Bench:
    """An observer, what it emitted, and the optimizers of a make-believe run."""

    def __init__(self, kind: Callable[[Bus, RunObjects], Observer], optimizers: int = 1) -> None:
        self.events: list[Event] = []
        self.bus = Bus(self.events.append)
        self.observer: object = kind(self.bus, RunObjects(self.bus))
        self.optimizers = [torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1) for _ in range(optimizers)]

    def tell(self, moment: str, subject: object) -> None:
        getattr(self.observer, moment)(subject)

    def step(self) -> None:
        """One round of all optimizers."""
        for optimizer in self.optimizers:
            self.tell("step_ended", StepCall(optimizer, HERE, self.bus.step, False))
            self.bus.step += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time of the observers, in nanoseconds, set by hand."""
    now = [1]
    monkeypatch.setattr(data_wait, "perf_counter_ns", lambda: now[0])
    monkeypatch.setattr(transfers, "perf_counter_ns", lambda: now[0])
    return now


# -- waiting --


def draws(bench: Bench, clock: list[int], count: int, *, waited: int = 30, rest: int = 10, per_step: int = 1) -> None:
    for number in range(count):
        clock[0] += (waited + rest) * 1_000_000
        bench.tell("batch_drawn", BatchDrawn(None, None, False, waited * 1_000_000, 1_000_000, 0))
        if number % per_step == per_step - 1:
            bench.bus.step += 1


def loader() -> DataLoader[object]:
    return DataLoader(TensorDataset(torch.zeros(4)))


def test_the_median_of_the_steps_is_told_once(clock: list[int]) -> None:
    bench = Bench(DataWaitObserver)
    bench.tell("loader_started", LoaderStart(kept := loader(), HERE))
    draws(bench, clock, 3 * ENOUGH)
    bench.tell("loader_started", LoaderStart(kept, HERE))
    draws(bench, clock, 3 * ENOUGH)
    bench.tell("run_ended", END)
    (event,) = bench.events
    assert isinstance(event, BatchesAwaited)
    assert (event.steps, event.step_ms, event.waited_ms, event.computed_ms) == (ENOUGH, 40.0, 30.0, 1.0)
    assert (event.device, event.idle, event.place) == ("cpu", None, HERE)


def test_batches_of_one_step_are_added_up(clock: list[int]) -> None:
    bench = Bench(DataWaitObserver)
    bench.tell("loader_started", LoaderStart(kept := loader(), HERE))
    draws(bench, clock, 3 * ENOUGH, per_step=2)
    bench.tell("run_ended", END)
    del kept
    (event,) = bench.events
    assert isinstance(event, BatchesAwaited)
    assert (event.step_ms, event.waited_ms) == (80.0, 60.0)


def test_first_batches_of_passes_and_passes_without_steps_do_not_count(clock: list[int]) -> None:
    bench = Bench(DataWaitObserver)
    bench.bus.step = FIRST_STEP
    kept = loader()
    for _ in range(ENOUGH):
        bench.tell("loader_started", LoaderStart(kept, HERE))
        draws(bench, clock, 1, waited=5000)
        draws(bench, clock, 1)
    bench.tell("loader_started", LoaderStart(kept, HERE))
    draws(bench, clock, 50, waited=5000, per_step=1000)
    (event,) = bench.events
    assert isinstance(event, BatchesAwaited)
    assert event.waited_ms == 30.0


def test_a_pause_of_the_watch_is_no_step(clock: list[int]) -> None:
    bench = Bench(DataWaitObserver)
    bench.tell("loader_started", LoaderStart(kept := loader(), HERE))
    draws(bench, clock, FIRST_STEP + 10)
    clock[0] += 10**12
    bench.bus.step += 60
    bench.tell("watching_resumed", None)
    draws(bench, clock, 3)
    bench.tell("run_ended", END)
    del kept
    (event,) = bench.events
    assert isinstance(event, BatchesAwaited)
    assert (event.steps, event.step_ms) == (9 + 2, 40.0)


def test_too_few_steps_say_nothing(clock: list[int]) -> None:
    bench = Bench(DataWaitObserver)
    bench.tell("loader_started", LoaderStart(kept := loader(), HERE))
    draws(bench, clock, FIRST_STEP + 5)
    bench.tell("run_ended", END)
    del kept
    assert bench.events == []


# -- reads --


def reads(every: int, optimizers: int = 1, rounds: int = 16) -> list[Event]:
    """A loop that reads a value in each so-many-th round."""
    bench = Bench(ReadsObserver, optimizers)
    for number in range(rounds):
        if number % every == 0 and any(bench.bus.step in row for row in TRANSFER_WINDOWS):
            bench.tell("device_read", DeviceRead("item", "cuda", HERE, 2_000_000))
        bench.step()
    bench.tell("run_ended", END)
    return bench.events


@pytest.mark.parametrize("optimizers", [1, 2, 3])
def test_a_read_in_each_round_is_told_however_many_optimizers_step(optimizers: int, clock: list[int]) -> None:
    event = reads(1, optimizers)[0]
    assert isinstance(event, DeviceReads)
    assert [(line.place, line.readers) for line in event.lines] == [(HERE, ("item",))]
    assert event.steps >= 3


def test_a_read_every_other_round_is_not(clock: list[int]) -> None:
    event = reads(2)[0]
    assert isinstance(event, DeviceReads)
    assert event.lines == ()


def test_each_row_is_told_by_itself(clock: list[int]) -> None:
    assert len(reads(1, rounds=60)) == len(TRANSFER_WINDOWS)
    assert len(reads(1, rounds=TRANSFER_WINDOWS[0][0] + 4)) == 1
    assert reads(1, rounds=TRANSFER_WINDOWS[0][0] + 3) == []  # two rounds only


def test_a_run_on_the_host_tells_no_reads(clock: list[int]) -> None:
    bench = Bench(ReadsObserver)
    for _ in range(60):
        bench.step()
    bench.tell("run_ended", END)
    assert bench.events == []


# -- copies --


def copies(every: int = 1, *, device: str = "cuda", changed: bool = False) -> list[Event]:
    bench = Bench(CopiesObserver)
    for number in range(16):
        batch = (torch.zeros(64, 8192), torch.zeros(64))
        bench.tell("batch_drawn", BatchDrawn(None, batch, True, 0, None, 3))
        if number % every == 0:
            for tensor in batch:
                bench.tell("device_copied", DeviceCopy(tensor + 1 if changed else tensor, device))
        bench.step()
    return bench.events


def test_batches_copied_as_they_come_are_told_once() -> None:
    (event,) = copies()
    assert isinstance(event, BatchesCopied)
    assert (event.loader, event.steps, event.copies) == (3, 3, 2)
    assert event.megabytes == pytest.approx((64 * 8192 + 64) * 4 / 1e6)


def test_other_copies_are_not() -> None:
    assert copies(every=2) == []
    assert copies(device="mps") == []
    assert copies(changed=True) == []


# -- what is on the host --


def test_nothing_on_the_host_is_told_of_as_if_on_a_device() -> None:
    bench = Bench(UpdatePathObserver)
    bench.optimizers[0].param_groups[0]["params"][0].grad = torch.zeros(1)
    bench.step()
    assert not [event for event in bench.events if isinstance(event, UpdatePath)]
    bench = Bench(DeviceWorkObserver)
    bench.step()
    bench.tell("run_ended", END)
    assert not [event for event in bench.events if isinstance(event, DeviceWorked)]


# -- the tap --

READING = """\
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
other = torch.ones(4)
for step in range(20):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    loss.backward()
    optimizer.step()
    total = loss.item()  # read
    text = f"{loss:.2f}"  # read
    if loss > 1e9:  # read
        break
    kept = loss.detach().tolist()  # read
    x.to(other)
    if step % 5 == 0:
        print(float(loss.detach()))
"""


def test_on_a_device_each_line_that_reads_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch that was built for a device, and tensors that say they are not the host's."""
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.Tensor, "is_cpu", property(lambda _: False), raising=False)
    checked = check_script(tmp_path, READING, select=["SPD102"])
    assert not checked.verdict.failures, checked.verdict.failures
    expected = {number for number, line in enumerate(READING.splitlines(), 1) if line.endswith("# read")}
    assert checked.at() == {("gpu-sync-every-step", line) for line in expected}


@pytest.mark.parametrize(
    "steps", [TRANSFER_WINDOWS[0][0], TRANSFER_WINDOWS[0][3], TRANSFER_WINDOWS[0][-1] + 1, TRANSFER_WINDOWS[0][-1] + 5]
)
def test_whenever_the_run_ends_tensors_are_put_back(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))

    def work() -> tuple[set[str], bool]:
        before = dict(vars(torch.Tensor))
        watch = Watch(script="train.py").start()
        optimizer = torch.optim.SGD([parameter := nn.Parameter(torch.ones(1))], lr=0.1)
        for _ in range(steps):
            optimizer.zero_grad()
            torch.autograd.backward(parameter.sum())
            optimizer.step()
        reading = "__bool__" in vars(torch.Tensor)
        watch.stop()
        after = dict(vars(torch.Tensor))
        return {name for name in before.keys() | after.keys() if before.get(name) is not after.get(name)}, reading

    assert in_child(work) == (set(), steps in TRANSFER_WINDOWS[0])


def test_a_torch_for_the_host_alone_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: None)
    text = READING.replace("    x.to(other)\n", "    print(torch.Tensor.to is torch._C.TensorBase.to)\n")
    assert set(check_script(tmp_path, text, select=["SPD102"]).output.split()) >= {"True"}
    assert "False" not in check_script(tmp_path, text, select=["SPD102"]).output
