"""The instruments one by one: the work counter, the sampler, module names, ceilings, memory."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.conftest import in_child
from tests.waiting import until
from trueloop.profile import ceilings as measuring
from trueloop.profile.clock import PhaseSpan
from trueloop.profile.memory import PersistentTensors, own_parameters
from trueloop.profile.sampler import Sampler
from trueloop.profile.work_counter import ModuleStack, WorkCounter
from trueloop.results.profile import Ceilings
from trueloop.taps.bus import Bus

# -- work --


def counted(work: Any) -> WorkCounter:
    counter = WorkCounter(Bus(lambda _: None))
    counter.begin(set())
    try:
        work()
    finally:
        counter.end()
    return counter


def test_products_have_flops_and_bytes_and_views_are_free() -> None:
    one, other = torch.ones(4, 8), torch.ones(8, 2)
    counter = counted(lambda: (one.t().t().view(4, 8) @ other).reshape(-1))
    work = counter.work()
    assert (work.operations, work.flops, work.bytes) == (1, 2 * 4 * 8 * 2, 4 * (32 + 16 + 8))
    assert work.flops_by_type == {"float32": 128}


def test_an_expanded_tensor_moves_what_is_there() -> None:
    row, whole = torch.ones(10), torch.ones(1000, 10)
    assert counted(lambda: whole + row.expand(1000, 10)).work().bytes == 4 * (10_000 + 10 + 10_000)


def test_neighbours_could_be_fused() -> None:
    value = torch.ones(1000)
    work = counted(lambda: ((value * 2 + 1).tanh() - 3).sum()).work()
    assert work.pointwise == 4
    assert work.pointwise_bytes == 4 * 2 * 4000
    assert work.fused_bytes == 2 * 4000  # one read, and one write for the sum


def test_updates_in_place_that_hand_nothing_back_are_counted() -> None:
    tensors = [torch.ones(10), torch.ones(20)]
    work = counted(lambda: torch._foreach_add_(tensors, 1.0)).work()
    assert (work.operations, work.bytes) == (1, 2 * 4 * 30)


def test_what_is_kept_for_the_backward_and_the_peak() -> None:
    layer, value = nn.Linear(8, 16), torch.ones(4, 8)
    own = {each.untyped_storage().data_ptr() for each in layer.parameters()}
    counter = WorkCounter(Bus(lambda _: None))
    counter.begin(own)
    layer(value).tanh().sum().backward()
    counter.end()
    assert dict(counter.activations) == {"": 4 * (4 * 8 + 4 * 16)}  # the input, and what tanh has made; no weights
    assert counter.peak >= 4 * 4 * 16 * 2
    assert counter.flops_by_module == {"": 2 * 4 * 8 * 16}
    assert sum(row.flops for row in counter.operations.values()) == 2 * 2 * 4 * 8 * 16


def test_a_counter_that_fails_does_not_break_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trueloop.profile.work_counter.flop_registry", None)
    made: list[torch.Tensor] = []
    counter = counted(lambda: made.append(torch.ones(3) + 1))
    assert made[0].tolist() == [2, 2, 2]
    assert "AttributeError" in counter.failure


def test_nothing_is_left_behind() -> None:
    before = (torch._C._len_torch_dispatch_stack(), len(nn.modules.module._global_forward_hooks))
    counted(lambda: nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward())
    assert (torch._C._len_torch_dispatch_stack(), len(nn.modules.module._global_forward_hooks)) == before


# -- names of modules --


def test_modules_have_their_names_in_the_model() -> None:
    model = nn.ModuleDict({"body": nn.Sequential(nn.Linear(2, 2), nn.ReLU())})

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.model["body"](value)
            return out

    entered: list[str] = []

    def enter(name: str) -> str:
        entered.append(name)
        return name

    scope = ModuleStack(enter, lambda token: entered.append(f"/{token}"))
    scope.install()
    Whole()(torch.ones(1, 2))
    assert scope.inside is None
    scope.remove()
    Whole()(torch.ones(1, 2))
    body = "model.body"
    assert entered == ["", body, f"{body}.0", f"/{body}.0", f"{body}.1", f"/{body}.1", f"/{body}", "/"]
    assert scope.kinds[f"{body}.1"] == "ReLU"


def test_a_forward_that_raises_is_left() -> None:
    scope = ModuleStack()
    scope.install()
    with pytest.raises(RuntimeError):
        nn.Sequential(nn.Linear(2, 2))(torch.ones(1, 3))
    assert scope.inside is None
    scope.remove()


# -- lines --


def sampled(*, taken: bool = False) -> tuple[int, str, bool]:
    """Looks at a loop of Python; how many, at which file, and whether the signal is free again."""
    if taken:
        signal.signal(signal.SIGALRM, lambda *_: None)
    sampler = Sampler()
    sampler.start()
    began = time.perf_counter_ns()
    while len(sampler.samples) < (2 if taken else 5):
        sum(range(100))
    sampler.stop()
    pieces: list[PhaseSpan] = [("python", began, time.perf_counter_ns())]
    lines = sampler.lines(pieces)
    total = sum(line.share for line in lines)
    assert total == pytest.approx(1.0)
    free = signal.getsignal(signal.SIGALRM) == signal.SIG_DFL and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    return len(sampler.samples), lines[0].place.path, free


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_lines_are_seen_by_a_signal_which_is_given_back() -> None:
    looks, path, free = in_child(sampled)
    assert looks >= 5
    assert path == str(Path(__file__))
    assert free


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_a_signal_that_is_in_use_is_left_alone() -> None:
    looks, path, free = in_child(lambda: sampled(taken=True))
    assert looks >= 2  # another thread has looked
    assert path == str(Path(__file__))
    assert not free  # the script's own


def test_outside_of_the_main_thread_another_thread_looks() -> None:
    found: list[int] = []

    def work() -> None:
        sampler = Sampler()
        sampler.start()
        until(lambda: len(sampler.samples) >= 2, "another thread has looked twice")
        sampler.stop()
        found.append(len(sampler.samples))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found[0] >= 2


# -- ceilings --


def test_ceilings_are_measured_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(measuring, "PATIENCE", 0.01)
    first: Ceilings = in_child(
        lambda: measuring.ceilings_of(torch.device("cpu"))
    )  # its threads must not be this process's
    assert first.flops["float32"] > 0
    assert first.bandwidth > 0
    assert 0 < first.launch < 0.01
    assert 0 <= first.cold < 0.01
    assert first.flops_all_cores >= first.flops["float32"]
    monkeypatch.setattr(measuring, "_cpu", lambda: pytest.fail("measured twice"))
    assert measuring.ceilings_of(torch.device("cpu")) == first
    assert len(json.loads((tmp_path / "trueloop" / "ceilings.json").read_text())) == 1


@pytest.mark.parametrize("content", ["", "[]", "no json", '{"1|x": {}}'])
def test_a_damaged_cache_is_measured_anew(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "trueloop").mkdir()
    (tmp_path / "trueloop" / "ceilings.json").write_text(content)
    made = Ceilings({"float32": 1.0}, 1.0, 1.0)
    monkeypatch.setattr(measuring, "_cpu", lambda: made)
    assert measuring.ceilings_of(torch.device("cpu")) == made


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trueloop").write_text("a file where the folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = Ceilings({"float32": 1.0}, 1.0, 1.0)
    monkeypatch.setattr(measuring, "_cpu", lambda: made)
    assert measuring.ceilings_of(torch.device("cpu")) == made


def test_measuring_leaves_the_threads_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "PATIENCE", 0.005)

    def work() -> tuple[int, int, bool]:
        before = torch.get_num_threads()
        state = torch.get_rng_state()
        measuring._cpu()
        return before, torch.get_num_threads(), torch.equal(state, torch.get_rng_state())

    before, after, same = in_child(work)
    assert before == after
    assert same


# -- memory --


def test_what_outlives_a_step_is_counted_exactly() -> None:
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    optimizer = torch.optim.Adam([each for each in model.parameters() if each.requires_grad])
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    kept = PersistentTensors([model], [optimizer])
    trained = 4 * (4 + 4 + 8 + 2)
    assert kept.parameters == trained + 4 * 16
    assert kept.gradients == kept.gradients_alive == trained
    assert kept.optimizer == 2 * trained + 4 * 4
    assert kept.buffers == 4 * (4 + 4) + 8
    assert own_parameters(model) == {"": 0, "0": 64, "1": 32, "2": 40}
    memory = kept.memory(None, None)
    assert memory.measured is None
    assert memory.predicted == kept.parameters + kept.gradients + kept.optimizer + kept.buffers
    assert memory.process > 0
