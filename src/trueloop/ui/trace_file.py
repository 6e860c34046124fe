"""`trace.json` in the folder of a run: the spans of PyTorch's profiler, few enough to draw."""

from pathlib import Path
from typing import Any, Final

from trueloop.errors import NotARun
from trueloop.ui.bounded_files import read_json
from trueloop.ui.profile_file import TRACE

__all__ = ["module_order", "read_spans"]

MOST_BYTES: Final = 48 << 20
"""Of a trace that is read; a longer one is only handed over."""
MOST_SPANS: Final = 3000
_LANES: Final = {"cpu_op": "operations", "kernel": "device", "gpu_memcpy": "copy", "gpu_memset": "device"}
_MODULE: Final = "nn: "  # `trueloop profile` marks modules so


def read_spans(folder: Path) -> tuple[list[list[Any]], int]:
    """([lane, name, start, end] in seconds from the first, how many were left out): the longest ones, in time order.
    Raises NotARun for a damaged file and for one that is too long to read."""
    trace = read_json(folder, TRACE, MOST_BYTES)
    events = trace.get("traceEvents") if isinstance(trace, dict) else trace
    spans: list[list[Any]] = []
    for event in events if isinstance(events, list) else []:
        if not isinstance(event, dict) or event.get("ph") != "X":
            continue
        start, length, name = event.get("ts"), event.get("dur"), str(event.get("name", ""))[:80]
        if not isinstance(start, (int, float)) or not isinstance(length, (int, float)):
            continue
        lane = "modules" if name.startswith(_MODULE) else _LANES.get(str(event.get("cat")))
        if lane is not None:
            spans.append([lane, name.removeprefix(_MODULE).removeprefix("aten::"), start / 1e6, (start + length) / 1e6])
    if events is not None and not isinstance(events, list):
        raise NotARun(f"{TRACE} is damaged: it has no list of events.")
    first = min((span[2] for span in spans), default=0.0)
    longest = sorted(spans, key=lambda span: span[2] - span[3])[:MOST_SPANS]
    shown = [[lane, name, start - first, end - first] for lane, name, start, end in longest]
    return sorted(shown, key=lambda span: span[2]), len(spans) - len(shown)


def module_order(spans: list[list[Any]]) -> list[str]:
    """Names of modules in the order of their first call."""
    return list(dict.fromkeys(name for lane, name, _, _ in spans if lane == "modules"))
