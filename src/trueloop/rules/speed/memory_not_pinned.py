"""SPD105 memory-not-pinned: batches are copied to the GPU from memory that is not pinned.

What it sees
------------
Tensors of a loader's batches, in memory that is not pinned, copied unchanged to a CUDA device by `.to()` or `.cuda()`
in several consecutive steps, at least 1 MB in each.

Why it hurts
------------
The copy engine of the GPU reads only pinned memory. Everything else is copied twice, first by the CPU into a pinned
buffer, and the program waits: `non_blocking=True` has no effect. A copy from pinned memory is two to four times faster
and overlaps with computation.

Evidence
--------
The megabytes and the copies per step, and the workers of the loader.

Use instead
-----------
    loader = DataLoader(data, batch_size=64, shuffle=True, pin_memory=True)
    x = x.to("cuda", non_blocking=True)

When it is fine
---------------
Not reported: less than 1 MB per step, tensors that do not come unchanged from a loader (modified on the host, or sliced
from data that should be on the device), and devices other than CUDA. Pinned memory cannot be swapped: on a host with
little memory, allow this.
"""

import ast
from typing import Final

from trueloop.event import BatchesCopied, LoaderSeen, Place
from trueloop.rules.rule import Findings, Rule, Severity, call_at, facts
from trueloop.usercode.source import diff

__all__ = ["MemoryNotPinned"]

MEGABYTES: Final = 1.0  # Per step: about 0.1 ms from pageable memory, as long as the calls around it


class MemoryNotPinned(Rule, code="SPD105", severity=Severity.ADVICE):
    not_applicable = "no loader was used"
    fix_keeps_result = True

    def __init__(self) -> None:
        self._loaders: dict[int, LoaderSeen] = {}
        self._copied = False

    def why_not_checked(self) -> str:
        pinned = any(loader.pinned for loader in self._loaders.values())
        return "" if self._copied or pinned else "no batch was copied to a GPU"

    def on_loader_seen(self, event: LoaderSeen) -> None:
        self._loaders[event.loader] = event

    def on_batches_copied(self, event: BatchesCopied) -> Findings:
        self._copied = True
        loader = self._loaders.get(event.loader)
        if loader is None or loader.pinned or event.megabytes < MEGABYTES:
            return
        yield self.finding(
            event,
            f"Each step copies {event.megabytes:.1f} MB of this loader's batch to the GPU from memory that is not "
            "pinned. The copy is slow and blocks the program.",
            fix="Use `DataLoader(..., pin_memory=True)` and `.to(device, non_blocking=True)`.",
            evidence=facts(
                event, "megabytes copies steps", megabytes=round(event.megabytes, 2), workers=loader.workers
            ),
            place=loader.place,
            diff=_pinned(loader.place),
        )


def _pinned(place: Place | None) -> str:
    """The call with `pin_memory=True`, if it is on one line and does not set it."""
    source, call = call_at(place, "DataLoader")
    if call is None or call.lineno != call.end_lineno or not call.args:
        return ""
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    if starred or any(keyword.arg in (None, "pin_memory") for keyword in call.keywords):
        return ""
    text = source.text(call).removesuffix(")").rstrip().removesuffix(",")
    return diff(source.path, [source.replacing(call, f"{text}, pin_memory=True)")])
