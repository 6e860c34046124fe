"""Some steps under PyTorch's profiler: time per operation and module, device utilization, and time outside of torch.

The profiler slows down the host. So its host times are used only as shares (of a phase, of all operations).
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns, time_ns
from typing import Any, Final, final

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from trueloop.profile.clock import PhaseSpan
from trueloop.profile.work_counter import ModuleStack
from trueloop.results.profile import Host, ModuleCost, Operation, Phase, Span
from trueloop.torch_private.profiler import DeviceType

__all__ = ["ProfilerWindow", "WindowResult"]

MODULE: Final = "nn: "  # Prefix of trueloop's marks in the trace; the name of the module follows
BACKWARD: Final = "autograd::engine::evaluate_function: "
SHOWN: Final = 400  # Maximum number of spans in the timeline: more are indistinguishable in a chart
DRAWN_STEPS: Final = 3
Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One event of the profiler."""

    name: str
    start: int
    end: int
    thread: int
    sequence: int
    mark: bool  # An annotation, not an operation
    own: int
    linked: int  # For device entries: the operation that launched it
    device: bool
    flops: int


@dataclass(slots=True)
class WindowResult:
    """Results of the window, in seconds per step."""

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
class ProfilerWindow:
    """Profiles between `start` and `stop`, both called at the end of a step."""

    def __init__(self, *, cuda: bool, shapes: bool, modules: bool) -> None:
        self.cuda = cuda
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
        self.profiler = profile(activities=activities, record_shapes=shapes, with_flops=shapes)
        self.stack = ModuleStack(_enter, _leave) if modules else None
        self._offset = 0  # Offset from the clock's time to the profiler's

    def start(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()
        self.profiler.start()
        self._offset = time_ns() - perf_counter_ns()
        if self.stack is not None:
            self.stack.install()

    def stop(self) -> None:
        if self.stack is not None:
            self.stack.remove()
        if self.cuda:
            torch.cuda.synchronize()
        self.profiler.stop()

    def save(self, file: Path) -> None:
        """For chrome://tracing and ui.perfetto.dev."""
        self.profiler.export_chrome_trace(str(file))

    def result(self, spans: list[PhaseSpan], steps: int) -> WindowResult:
        """`spans`: the clock's phases of the same steps."""
        entries = list(self._entries())
        moved: list[PhaseSpan] = [(phase, start + self._offset, end + self._offset) for phase, start, end in spans]
        host = [each for each in entries if not each.device]
        device = [each for each in entries if each.device and not each.mark]
        loading = _merged((start, end) for phase, start, end in moved if phase == "data")
        sums = _Sums()
        on_device = _by_launcher(device) if device else None
        kinds = self.stack.kinds if self.stack else {}
        owners = _modules_of(host)
        counted = [each for each in host if not _overlap((each.start, each.start + 1), loading)]
        for thread in {each.thread for each in host}:
            _walk([each for each in counted if each.thread == thread], on_device, sums, owners)
        found = (Operation(name, sums.calls[name] / steps, ns / 1e9 / steps) for name, ns in sums.self_ns.items())
        operations = sorted(found, key=lambda op: -op.seconds)
        times = {name: (there / 1e9 / steps, back / 1e9 / steps) for name, (there, back) in sums.modules.items()}
        modules = [ModuleCost(name, kinds.get(name, ""), *each) for name, each in times.items()]
        return WindowResult(
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
    annotated: bool = hasattr(event, "is_user_annotation") and event.is_user_annotation()  # not in every torch version
    return annotated or event.scope() == 7 or name.startswith((MODULE, "Optimizer.", "enumerate(DataLoader)"))


# -- time per operation and module --


def _by_launcher(device: list[_Entry]) -> Counter[int]:
    """Nanoseconds on the device by launching operation."""
    total: Counter[int] = Counter()
    for each in device:
        total[each.linked] += each.end - each.start
    return total


def _modules_of(host: list[_Entry]) -> dict[int, str]:
    """The module of each forward operation, by the sequence number that it shares with its backward."""
    found: dict[int, str] = {}
    for thread in {each.thread for each in host}:
        under: list[tuple[int, str]] = []
        own = [each for each in host if each.thread == thread]
        for each in sorted(own, key=lambda entry: (entry.start, -entry.end)):
            while under and under[-1][0] <= each.start:
                under.pop()
            if each.name.startswith(MODULE):
                under.append((each.end, each.name[len(MODULE) :]))
            elif under and each.sequence >= 0 and not each.name.startswith(BACKWARD):
                found.setdefault(each.sequence, under[-1][1])
    return found


def _walk(entries: list[_Entry], on_device: Counter[int] | None, sums: _Sums, modules: dict[int, str]) -> None:
    """One thread: charge each operation's self time to its name and to its module."""
    stack: list[list[Any]] = []  # entry, nanoseconds of its children, module, whether it is backward

    def close() -> None:
        entry, children, module, backward = stack.pop()
        if stack:
            stack[-1][1] += entry.end - entry.start
        if entry.mark:
            return
        name = _operation_name(entry.name)
        launched = on_device.get(entry.own, 0) if on_device and name else 0  # driver calls have their own numbers
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


def _operation_name(name: str) -> str:
    """The name of an operation; empty for entries of the profiler or the driver."""
    if name.startswith((BACKWARD, "cu", "hip")):
        return ""
    if name.startswith(("Torch-Compiled Region", "CompiledFunction")):
        return "compiled region"
    return name.removeprefix("aten::") if "::" in name else ""


# -- host and device --


def _host(host: list[_Entry], device: list[_Entry], spans: list[PhaseSpan], steps: int) -> Host:
    inside = _merged((each.start, each.end) for each in host if not each.mark and not _is_communication(each.name))
    spent: Counter[Phase] = Counter()
    covered: Counter[Phase] = Counter()
    for phase, start, end in spans:
        spent[phase] += end - start
        covered[phase] += _overlap((start, end), inside)
    computing = [each for each in device if not _is_communication(each.name) and not _is_upload(each.name)]
    kernels = _merged((each.start, each.end) for each in computing)
    copies = _merged((each.start, each.end) for each in device if _is_upload(each.name))
    exchanges = _merged((each.start, each.end) for each in (device or host) if _is_communication(each.name))
    own = kernels if device else inside
    per_step = 1e9 * steps
    return Host(
        steps=steps,
        inside={phase: covered[phase] / ns for phase, ns in spent.items() if ns},
        launches=sum(not _is_upload(each.name) for each in device) / steps,
        busy=_length(_merged([*kernels, *copies, *exchanges])) / per_step if device else None,
        copying=(_length(copies) - sum(_overlap(each, kernels) for each in copies)) / per_step,
        exchanging=(_length(exchanges) - sum(_overlap(each, own) for each in exchanges)) / per_step,
    )


def _is_upload(name: str) -> bool:
    return name.startswith("Memcpy HtoD")


def _is_communication(name: str) -> bool:
    return name.startswith(("nccl", "gloo:", "c10d::"))


def _merged(intervals: Iterable[Interval]) -> list[Interval]:
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif end > start:
            merged.append((start, end))
    return merged


def _length(merged: list[Interval]) -> int:
    return sum(end - start for start, end in merged)


def _overlap(one: Interval, merged: list[Interval]) -> int:
    """Covered length of one interval."""
    at = max(0, bisect_right(merged, (one[0], 1 << 63)) - 1)
    total = 0
    while at < len(merged) and merged[at][0] < one[1]:
        total += max(0, min(one[1], merged[at][1]) - max(one[0], merged[at][0]))
        at += 1
    return total


# -- the timeline --


def _timeline(spans: list[PhaseSpan], device: list[_Entry]) -> list[Span]:
    """The first steps of the window: phases of the host, kernels and copies of the device."""
    ends = [end for phase, _, end in spans if phase == "optimizer"]
    if not spans or not ends:
        return []
    origin, until = spans[0][1], ends[min(len(ends), DRAWN_STEPS) - 1]

    def span(lane: str, name: str, start: int, end: int) -> Span:
        return Span(lane, name, (start - origin) / 1e9, (end - origin) / 1e9)

    host = [span("host", phase, start, end) for phase, start, end in spans if start < until]
    shown = [each for each in device if origin <= each.start < until]
    uploads = _merged((each.start, each.end) for each in shown if _is_upload(each.name))
    kernels = _merged((each.start, each.end) for each in shown if not _is_upload(each.name))
    busy = [span("device", "kernels", *each) for each in kernels]
    return [*_longest(host), *_longest(busy), *_longest([span("copy", "copy", *each) for each in uploads])]


def _longest(spans: list[Span]) -> list[Span]:
    kept = sorted(spans, key=lambda each: each.start - each.end)[:SHOWN]
    return sorted(kept, key=lambda each: each.start)
