"""CKP103 unsafe-load: the file that is loaded may run any code.

What it sees
------------
A line of the user's calls `torch.load` with `weights_only=False` (or with an unpickler of its own) on a file that this
run has not written itself. The file is looked through, without running anything of it, for what a safe load would
refuse.

Why it hurts
------------
A pickle is a program. With `weights_only=False` it is run with all rights of the process: whoever wrote the file, or
could change it on its way, decides what happens. Weights from the internet are a known way into other people's
machines. And a file that needs it breaks when the classes it names move.

Evidence
--------
The file, and the classes in it that only an unsafe load can read; none: `weights_only=True` gives the same value.

Use instead
-----------
    checkpoint = torch.load(path, weights_only=True)      # the default since PyTorch 2.6

    torch.serialization.add_safe_globals([Config])        # where a class of your own is in the file, and you trust it

When it is fine
---------------
Not reported: loads that are safe by argument or by default, files that this very run has written, buffers in memory,
and loads that a library makes on the user's behalf. A setting of the environment (`TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD`)
is not on any line and is not reported either.

For a file that you wrote yourself and that must hold objects, allow it on the line: `# trueloop: allow[unsafe-load]`.
"""

from __future__ import annotations

import ast
from typing import final

from trueloop.event import FileLoaded, Place
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import diff, shown_path, source_of

__all__ = ["UnsafeLoad"]


@final
class UnsafeLoad(Rule):
    code = "CKP103"
    name = "unsafe-load"
    severity = Severity.WARNING
    not_applicable = "nothing was loaded by torch.load"

    def on_file_loaded(self, event: FileLoaded) -> Findings:
        if not event.unsafe or not event.direct or event.written_by_run or not event.file:
            return
        needless = event.fully_read and not event.unsafe_classes
        if needless:
            holds = "and holds nothing but tensors and plain values, which a safe load reads as well"
        else:
            holds = (
                f"and names {', '.join(event.unsafe_classes[:3])}"
                if event.unsafe_classes
                else "and is of a format that cannot be looked through"
            )
        yield self.finding(
            event,
            f"{shown_path(event.file)} was loaded with the right to run any code, {holds}.",
            fix="Load with weights_only=True."
            if needless
            else "Save plain values and state dicts, and load with weights_only=True; or name the classes you trust: "
            "torch.serialization.add_safe_globals.",
            evidence={
                "file": shown_path(event.file),
                "needs_unsafe_load": list(event.unsafe_classes) if event.fully_read else "unknown",
                "written_by_this_run": event.written_by_run,
            },
            diff=_safely(event.place) if needless and event.place is not None else "",
        )


def _safely(place: Place) -> str:
    source = source_of(place.path)
    calls = source.calls(place.line, "load")
    words = [word.value for call in calls for word in call.keywords if word.arg == "weights_only"]
    if len(calls) != 1 or len(words) != 1 or not isinstance(words[0], ast.Constant):
        return ""
    return diff(place.path, [source.replacing(words[0], "True")])
