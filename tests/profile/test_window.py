"""What the profiler's entries mean: entries made by hand, and a real window over a few steps."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter_ns

import pytest
import torch
from torch import nn

from tests.conftest import in_child
from trueloop.profile.clock import PhaseSpan
from trueloop.profile.profiler_window import (
    ProfilerWindow,
    WindowResult,
    _by_launcher,
    _Entry,
    _host,
    _merged,
    _modules_of,
    _overlap,
    _Sums,
    _timeline,
    _walk,
)
from trueloop.results.profile import Phase


def entry(name: str, start: int, end: int, **more: object) -> _Entry:
    facts = {"thread": 1, "sequence": -1, "mark": False, "own": 0, "linked": 0, "device": False, "flops": 0}
    return _Entry(name, start, end, **{**facts, **more})  # type: ignore[arg-type]


def test_intervals_are_merged_and_measured() -> None:
    merged = _merged([(5, 9), (0, 3), (2, 4), (9, 10), (20, 20)])
    assert merged == [(0, 4), (5, 10)]
    assert _overlap((3, 7), merged) == 3
    assert _overlap((4, 5), merged) == 0
    assert _overlap((-5, 50), merged) == 9
    assert _overlap((1, 2), []) == 0


def test_an_operation_has_the_time_that_its_children_have_not() -> None:
    sums = _Sums()
    entries = [
        entry("aten::linear", 0, 100),
        entry("aten::t", 10, 20),
        entry("aten::addmm", 30, 90),
        entry("aten::addmm", 200, 210),
    ]
    _walk(entries, None, sums, {})
    assert sums.self_ns == {"linear": 30, "t": 10, "addmm": 70}
    assert sums.calls["addmm"] == 2


def test_time_goes_to_the_innermost_module_and_its_backward() -> None:
    entries = [
        entry("nn: ", 0, 100, mark=True),
        entry("nn: fc", 10, 60, mark=True),
        entry("aten::addmm", 20, 50, sequence=7),
        entry("aten::mul", 70, 80, sequence=8),
        entry("autograd::engine::evaluate_function: MulBackward0", 200, 210, sequence=8),
        entry("autograd::engine::evaluate_function: AddmmBackward0", 300, 350, sequence=7),
        entry("aten::mm", 310, 340),
        entry("aten::add_", 400, 410),
    ]
    sums = _Sums()
    _walk(entries, None, sums, _modules_of(entries))
    assert sums.modules == {"fc": [30, 50], "": [10, 10]}
    assert sum(sums.self_ns.values()) == 30 + 10 + 30 + 10


def test_on_a_device_an_operation_has_the_time_of_its_kernels() -> None:
    kernels = [entry("gemm", 1000, 1600, linked=5, device=True), entry("gemm", 1600, 1700, linked=5, device=True)]
    sums = _Sums()
    _walk([entry("aten::mm", 0, 10, own=5), entry("cudaLaunchKernel", 2, 4, own=6)], _by_launcher(kernels), sums, {})
    assert sums.self_ns == {"mm": 700}


def test_a_host_alone_is_told_by_phase() -> None:
    pieces: list[PhaseSpan] = [("forward", 0, 100), ("python", 100, 200)]
    host = _host([entry("aten::mm", 10, 60), entry("nn: fc", 0, 100, mark=True)], [], pieces, 1)
    assert host.inside == {"forward": 0.5, "python": 0.0}
    assert host.busy is None


def test_copies_and_exchanges_count_where_nothing_is_computed_meanwhile() -> None:
    device = [
        entry("gemm", 0, 100, device=True),
        entry("gemm", 150, 200, device=True),
        entry("Memcpy HtoD (Pageable -> Device)", 80, 140, device=True),
        entry("ncclDevKernel_AllReduce", 190, 260, device=True),
    ]
    host = _host([entry("aten::mm", 0, 10)], device, [("forward", 0, 10)], 2)
    assert host.copying == pytest.approx(40 / 2 / 1e9)
    assert host.exchanging == pytest.approx(60 / 2 / 1e9)
    assert host.busy == pytest.approx((140 + 110) / 2 / 1e9)
    assert host.launches == 1.5


def test_on_processors_an_exchange_is_what_no_operation_covers() -> None:
    entries = [entry("aten::mm", 0, 50), entry("gloo:all_reduce", 30, 90, thread=2)]
    assert _host(entries, [], [("backward", 0, 100)], 1).exchanging == pytest.approx(40e-9)


def test_the_timeline_begins_at_zero_and_ends_with_a_step() -> None:
    phases: tuple[Phase, ...] = ("forward", "backward", "optimizer")
    pieces: list[PhaseSpan] = [(phase, 100 * at, 100 * at + 100) for at, phase in enumerate(phases * 5)]
    spans = _timeline(pieces, [entry("gemm", 50, 80, device=True), entry("Memcpy HtoD", 90, 95, device=True)])
    assert spans[0].start == 0.0
    assert max(span.end for span in spans) == pytest.approx(900e-9)  # three steps of five
    assert [span.name for span in spans if span.lane == "device"] == ["kernels"]
    assert [span.name for span in spans if span.lane == "copy"] == ["copy"]
    assert _timeline([], []) == []


def test_a_real_window(tmp_path: Path) -> None:
    def work() -> tuple[WindowResult, int]:
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
        window = ProfilerWindow(cuda=False, shapes=True, modules=True)
        window.start()
        began = perf_counter_ns()
        for _ in range(3):
            model(torch.ones(4, 8)).sum().backward()
        ended = perf_counter_ns()
        window.stop()
        window.save(tmp_path / "trace.json")
        left = len(nn.modules.module._global_forward_hooks) + len(nn.modules.module._global_forward_pre_hooks)
        return window.result([("forward", began, ended)], 3), left

    seen, left = in_child(work)
    assert left == 0
    assert {"addmm", "tanh", "mm"} <= {each.name for each in seen.operations}
    assert next(each for each in seen.operations if each.name == "addmm").calls == 2
    assert {(each.name, each.kind) for each in seen.modules} >= {("0", "Linear"), ("1", "Tanh"), ("2", "Linear")}
    assert all(each.forward > 0 and each.backward > 0 for each in seen.modules if each.name)
    assert 0 < seen.host.inside["forward"] <= 1
    assert seen.flops >= 2 * 4 * (8 * 16 + 16 * 2)
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
