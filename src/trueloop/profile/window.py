"""Some steps under PyTorch's profiler: which operations and modules take the time, how busy the device is, and what
lies outside of torch.

The profiler itself costs time, on the host. So its seconds are used as shares (of a phase, of all operations), or are
the device's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns, time_ns
from typing import Any, Final, final

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from trueloop.profile.clock import Piece
from trueloop.profile.scope import Scope
from trueloop.results.profile import Host, ModuleCost, Operation, Phase, Span
from trueloop.torch_private.profiler import DeviceType

__all__ = ["Seen", "Window"]

MODULE: Final = "nn: "
"""What our marks in the trace begin with; the name of the module follows."""
BACKWARD: Final = "autograd::engine::evaluate_function: "
SHOWN: Final = 400
"""Spans of the timeline that are kept: more cannot be told apart in a picture."""
DRAWN_STEPS: Final = 3
Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of the profiler's."""

    name: str
    start: int
    end: int
    thread: int
    sequence: int
    mark: bool
    """Somebody's note, not an operation."""
    own: int
    linked: int
    """The operation that launched it: of what ran on the device."""
    device: bool
    flops: int


@dataclass(slots=True)
class Seen:
    """What the window has shown, in seconds of one step."""

    host: Host
    operations: list[Operation]
    modules: list[ModuleCost]
    timeline: list[Span]
    flops: int
    calls: int


@dataclass(slots=True)
class _Sums:
    self_ns: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    modules: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))


@final
class Window:
    """Between `start` and `stop`, at the ends of steps."""

    def __init__(self, *, cuda: bool, shapes: bool, modules: bool) -> None:
        self.cuda = cuda
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
        self.profiler = profile(activities=activities, record_shapes=shapes, with_flops=shapes)
        self.scope = Scope(_enter, _leave) if modules else None
        self._offset = 0
        """From the clock's time to the profiler's."""

    def start(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()
        self.profiler.start()
        self._offset = time_ns() - perf_counter_ns()
        if self.scope is not None:
            self.scope.install()

    def stop(self) -> None:
        if self.scope is not None:
            self.scope.remove()
        if self.cuda:
            torch.cuda.synchronize()
        self.profiler.stop()

    def save(self, file: Path) -> None:
        """For chrome://tracing and ui.perfetto.dev."""
        self.profiler.export_chrome_trace(str(file))

    def seen(self, pieces: list[Piece], steps: int) -> Seen:
        """`pieces`: what the clock says of the same steps."""
        entries = list(self._entries())
        moved: list[Piece] = [(phase, start + self._offset, end + self._offset) for phase, start, end in pieces]
        host = [each for each in entries if not each.device]
        device = [each for each in entries if each.device and not each.mark]
        loading = _merged((start, end) for phase, start, end in moved if phase == "data")
        sums = _Sums()
        on_device = _by_launcher(device) if device else None
        kinds = self.scope.kinds if self.scope else {}
        for thread in {each.thread for each in host}:
            _walk(
                [
                    each
                    for each in host
                    if each.thread == thread and not _overlap((each.start, each.start + 1), loading)
                ],
                on_device,
                sums,
                _modules_of(host),
            )
        operations = sorted(
            (Operation(name, sums.calls[name] / steps, ns / 1e9 / steps) for name, ns in sums.self_ns.items()),
            key=lambda op: -op.seconds,
        )
        modules = [
            ModuleCost(name, kinds.get(name, ""), forward / 1e9 / steps, backward / 1e9 / steps)
            for name, (forward, backward) in sums.modules.items()
        ]
        return Seen(
            host=_host(host, device, moved, steps),
            operations=operations,
            modules=sorted(modules, key=lambda each: -(each.forward + each.backward)),
            timeline=_timeline(moved, device),
            flops=sum(each.flops for each in host) // steps,
            calls=sum(sums.calls.values()) // steps,
        )

    def _entries(self) -> Iterator[_Entry]:
        results: Any = self.profiler.profiler.kineto_results if self.profiler.profiler else None
        for event in results.events() if results is not None else ():
            name = event.name()
            if name == "[memory]" or name.startswith("ProfilerStep#"):
                continue
            yield _Entry(
                name=name,
                start=event.start_ns(),
                end=event.start_ns() + event.duration_ns(),
                thread=event.start_thread_id(),
                sequence=event.sequence_nr(),
                mark=_is_mark(event, name),
                own=event.correlation_id(),
                linked=event.linked_correlation_id(),
                device=event.device_type() != DeviceType.CPU,
                flops=event.flops(),
            )


def _enter(name: str) -> Any:
    mark = record_function(f"{MODULE}{name}")
    mark.__enter__()  # type: ignore[no-untyped-call]
    return mark


def _leave(mark: Any) -> None:
    mark.__exit__(None, None, None)


def _is_mark(event: Any, name: str) -> bool:
    noted: bool = (
        event.is_user_annotation() if hasattr(event, "is_user_annotation") else False
    )  # torch's own object, of any version
    return noted or event.scope() == 7 or name.startswith((MODULE, "Optimizer.", "enumerate(DataLoader)"))


# -- who took the time --


def _by_launcher(device: list[_Entry]) -> Counter[int]:
    """Nanoseconds on the device, by the operation that launched them."""
    found: Counter[int] = Counter()
    for each in device:
        found[each.linked] += each.end - each.start
    return found


def _modules_of(host: list[_Entry]) -> dict[int, str]:
    """The module of each forward operation, by the number that its backward has too."""
    found: dict[int, str] = {}
    for thread in {each.thread for each in host}:
        under: list[tuple[int, str]] = []
        for each in sorted(
            (entry for entry in host if entry.thread == thread), key=lambda entry: (entry.start, -entry.end)
        ):
            while under and under[-1][0] <= each.start:
                under.pop()
            if each.name.startswith(MODULE):
                under.append((each.end, each.name[len(MODULE) :]))
            elif under and each.sequence >= 0 and not each.name.startswith(BACKWARD):
                found.setdefault(each.sequence, under[-1][1])
    return found


def _walk(entries: list[_Entry], on_device: Counter[int] | None, sums: _Sums, modules: dict[int, str]) -> None:
    """One thread: each operation's own time, charged to its name and to its module."""
    stack: list[list[Any]] = []  # entry, nanoseconds of its children, module, is it backward

    def close() -> None:
        entry, children, module, backward = stack.pop()
        if stack:
            stack[-1][1] += entry.end - entry.start
        if entry.mark:
            return
        name = _shown(entry.name)
        launched = (
            on_device.get(entry.own, 0) if on_device and name else 0
        )  # calls of the driver are numbered for themselves
        own = max(0, entry.end - entry.start - children) if on_device is None else launched
        if name:
            sums.self_ns[name] += own
            sums.calls[name] += 1
        if module is not None:
            sums.modules[module][backward] += own

    for entry in sorted(entries, key=lambda each: (each.start, -each.end)):
        while stack and stack[-1][0].end <= entry.start:
            close()
        module, backward = (stack[-1][2], stack[-1][3]) if stack else (None, False)
        if entry.name.startswith(MODULE):
            module, backward = entry.name[len(MODULE) :], False
        elif entry.name.startswith(BACKWARD):
            module, backward = modules.get(entry.sequence), True
        stack.append([entry, 0, module, backward])
    while stack:
        close()


def _shown(name: str) -> str:
    """The name of an operation; empty for what is the profiler's or the driver's own."""
    if name.startswith((BACKWARD, "cu", "hip")):
        return ""
    if name.startswith(("Torch-Compiled Region", "CompiledFunction")):
        return "compiled region"
    if "::" in name:
        return name.removeprefix("aten::")
    return ""


# -- host and device --


def _host(host: list[_Entry], device: list[_Entry], pieces: list[Piece], steps: int) -> Host:
    inside = _merged((each.start, each.end) for each in host if not each.mark and not _is_exchange(each.name))
    spent: Counter[Phase] = Counter()
    covered: Counter[Phase] = Counter()
    for phase, start, end in pieces:
        spent[phase] += end - start
        covered[phase] += _overlap((start, end), inside)
    kernels = _merged(
        (each.start, each.end) for each in device if not _is_exchange(each.name) and not _is_upload(each.name)
    )
    copies = _merged((each.start, each.end) for each in device if _is_upload(each.name))
    exchanges = _merged((each.start, each.end) for each in (device or host) if _is_exchange(each.name))
    own = kernels if device else inside
    per_step = 1e9 * steps
    return Host(
        steps=steps,
        inside={phase: covered[phase] / ns for phase, ns in spent.items() if ns},
        launches=len([each for each in device if not _is_upload(each.name)]) / steps,
        busy=_length(_merged([*kernels, *copies, *exchanges])) / per_step if device else None,
        copying=(_length(copies) - sum(_overlap(each, kernels) for each in copies)) / per_step,
        exchanging=(_length(exchanges) - sum(_overlap(each, own) for each in exchanges)) / per_step,
    )


def _is_upload(name: str) -> bool:
    return name.startswith("Memcpy HtoD")


def _is_exchange(name: str) -> bool:
    return name.startswith(("nccl", "gloo:", "c10d::"))


def _merged(intervals: Iterable[Interval]) -> list[Interval]:
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        elif end > start:
            found.append((start, end))
    return found


def _length(merged: list[Interval]) -> int:
    return sum(end - start for start, end in merged)


def _overlap(one: Interval, merged: list[Interval]) -> int:
    """How much of one interval is covered."""
    at = max(0, bisect_right(merged, (one[0], 1 << 63)) - 1)
    total = 0
    while at < len(merged) and merged[at][0] < one[1]:
        total += max(0, min(one[1], merged[at][1]) - max(one[0], merged[at][0]))
        at += 1
    return total


# -- the picture --


def _timeline(pieces: list[Piece], device: list[_Entry]) -> list[Span]:
    """The first steps of the window: what the host was at, and beside it the device."""
    ends = [end for phase, _, end in pieces if phase == "optimizer"]
    if not pieces or not ends:
        return []
    origin, until = pieces[0][1], ends[min(len(ends), DRAWN_STEPS) - 1]

    def span(lane: str, name: str, start: int, end: int) -> Span:
        return Span(lane, name, (start - origin) / 1e9, (end - origin) / 1e9)

    host = [span("host", phase, start, end) for phase, start, end in pieces if start < until]
    shown = [each for each in device if origin <= each.start < until]
    copies = [
        span("copy", "copy", *each) for each in _merged((one.start, one.end) for one in shown if _is_upload(one.name))
    ]
    kernels = [
        span("device", "kernels", *each)
        for each in _merged((one.start, one.end) for one in shown if not _is_upload(one.name))
    ]
    return [*_longest(host), *_longest(kernels), *_longest(copies)]


def _longest(spans: list[Span]) -> list[Span]:
    kept = sorted(spans, key=lambda each: each.start - each.end)[:SHOWN]
    return sorted(kept, key=lambda each: each.start)
