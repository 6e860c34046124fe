"""CKP103 unsafe-load: the loaded file can execute arbitrary code (`weights_only=False`).

What it sees
------------
A line of your code calls `torch.load` with `weights_only=False` (or with a custom unpickler) on a file that this run
has not written itself. The file is scanned, without executing it, for classes that a safe load would refuse.

Why it hurts
------------
A pickle is a program. With `weights_only=False` it runs with all rights of the process: the author of the file, or
anyone who could modify it, decides what happens. Downloaded weights are a known attack path. And a file that needs it
breaks when its classes move.

Evidence
--------
The file, and the classes in it that only an unsafe load can read. Without such classes, `weights_only=True`
gives the same value.

Use instead
-----------
    checkpoint = torch.load(path, weights_only=True)      # the default since PyTorch 2.6

    torch.serialization.add_safe_globals([Config])        # if a class of your own is in the file, and you trust it

When it is fine
---------------
Not reported: loads that are safe by argument or by default, files that this run has written, buffers in memory, loads
by a library, and the environment variable `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD`, which is not on any line.

For a file that you wrote yourself and that must contain objects, allow it: `# trueloop: allow[unsafe-load]`.
"""

import ast

from trueloop.event import FileLoaded, Place
from trueloop.rules.rule import Findings, Rule, Severity, call_at
from trueloop.usercode.source import diff, shown_path

__all__ = ["UnsafeLoad"]


class UnsafeLoad(Rule, code="CKP103", severity=Severity.WARNING):
    not_applicable = "`torch.load` was not called"
    fix_keeps_result = True

    def on_file_loaded(self, event: FileLoaded) -> Findings:
        if not event.unsafe or not event.direct or event.written_by_run or not event.file:
            return
        needless = event.fully_read and not event.unsafe_classes
        if event.unsafe_classes:
            contents = f"it contains {', '.join(event.unsafe_classes[:3])}"
        else:
            contents = "it contains only tensors and plain values" if needless else "its format cannot be scanned"
        yield self.finding(
            event,
            f"{shown_path(event.file)} was loaded with `weights_only=False`, so it can execute arbitrary code; "
            f"{contents}.",
            fix="Use `torch.load(path, weights_only=True)`: it reads this file."
            if needless
            else "Save state dicts and plain values and load with `weights_only=True`, "
            "or trust single classes with `torch.serialization.add_safe_globals`.",
            evidence={
                "file": shown_path(event.file),
                "needs_unsafe_load": list(event.unsafe_classes) if event.fully_read else "unknown",
                "written_by_this_run": event.written_by_run,
            },
            diff=_safely(event.place) if needless else "",
        )


def _safely(place: Place | None) -> str:
    source, call = call_at(place, "load")
    words = [word.value for word in call.keywords if word.arg == "weights_only"] if call else []
    once = len(words) == 1 and isinstance(words[0], ast.Constant)
    return diff(source.path, [source.replacing(words[0], "True")]) if once else ""
