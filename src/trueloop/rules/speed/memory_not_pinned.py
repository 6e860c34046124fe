"""SPD105 memory-not-pinned: each batch is copied to the GPU out of memory that the GPU cannot read by itself.

What it sees
------------
The very tensors of a loader's batches, in memory that is not pinned, copied to a CUDA device by `.to()` or `.cuda()` in
several steps in a row, a megabyte or more in each.

Why it hurts
------------
The GPU's copy engine reads pinned memory only. Everything else is copied twice, first by the processor into a pinned
buffer, and the program stands still meanwhile: `non_blocking=True` changes nothing. From pinned memory a copy is two to
four times as fast, and runs beside the computation.

Evidence
--------
The megabytes and the copies in each step, and the loader's workers.

Use instead
-----------
    loader = DataLoader(data, batch_size=64, shuffle=True, pin_memory=True)
    x = x.to("cuda", non_blocking=True)

When it is fine
---------------
Not reported: less than a megabyte for each step (the copy takes less time than asking for it), tensors that do not come
from a loader as they are (changed on the host, or sliced from data that would better lie on the device), devices other
than CUDA. Pinned memory cannot be swapped out: on a host that is short of memory leave it, and allow this.
"""

from __future__ import annotations

import ast
from typing import Final, final

from trueloop.event import BatchesCopied, LoaderSeen, Place
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import diff, source_of

__all__ = ["MemoryNotPinned"]

MEGABYTES: Final = 1.0
"""Per step: it takes about a tenth of a millisecond from pageable memory, as long as the handful of calls around it."""


@final
class MemoryNotPinned(Rule):
    code = "SPD105"
    name = "memory-not-pinned"
    severity = Severity.ADVICE
    not_applicable = "no loader was used"

    def __init__(self) -> None:
        self._loaders: dict[int, LoaderSeen] = {}
        self._copied = False

    def why_not_checked(self) -> str:
        return (
            ""
            if self._copied or any(loader.pinned for loader in self._loaders.values())
            else "no batch was copied to a GPU"
        )

    def on_loader_seen(self, event: LoaderSeen) -> None:
        self._loaders[event.loader] = event

    def on_batches_copied(self, event: BatchesCopied) -> Findings:
        self._copied = True
        loader = self._loaders.get(event.loader)
        if loader is None or loader.pinned or event.megabytes < MEGABYTES:
            return
        yield self.finding(
            event,
            f"Each step copies {event.megabytes:.1f} MB of this loader's batch to the GPU, out of memory that is not pinned: the copy "
            "takes its time twice, and the program stands still for it.",
            fix="Build the loader with pin_memory=True, and copy by .to(device, non_blocking=True).",
            evidence={
                "megabytes": round(event.megabytes, 2),
                "copies": event.copies,
                "steps": event.steps,
                "workers": loader.workers,
            },
            place=loader.place,
            diff=_pinned(loader.place),
        )


def _pinned(place: Place | None) -> str:
    """The loader's call with one argument more, where it stands alone on the line and names none of this."""
    if place is None:
        return ""
    source = source_of(place.path)
    calls = source.calls(place.line, "DataLoader")
    if len(calls) != 1 or calls[0].lineno != calls[0].end_lineno or not calls[0].args:
        return ""
    if any(keyword.arg in (None, "pin_memory") for keyword in calls[0].keywords) or any(
        isinstance(a, ast.Starred) for a in calls[0].args
    ):
        return ""
    text = source.text(calls[0]).removesuffix(")").rstrip().removesuffix(",")
    return diff(place.path, [source.replacing(calls[0], f"{text}, pin_memory=True)")])
