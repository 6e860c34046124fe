"""SPD102 gpu-sync-every-step: a line waits for the GPU in every training step.

What it sees
------------
Lines of your code that read a value from a device in every step of several consecutive steps: `.item()`, `.cpu()`,
`.to("cpu")`, `.tolist()`, `float(t)`, `int(t)`, `bool(t)` (an `if` on a tensor), `print(t)`, `f"{t}"`; and how long
each waited. Not seen: functions that sync internally (`nonzero`, boolean masks) and reads in library code.

Why it hurts
------------
A GPU works through a queue. Reading a value waits until the queue is empty, and while Python then prepares the next
step the GPU is idle: the two take turns instead of overlapping.

Evidence
--------
The device, the line and the call, the wait per step, the step time, and the share that could overlap: the smaller of
the wait and the rest of the step.

Use instead
-----------
    total += loss.detach()            # stays on the GPU
    if step % 50 == 0:
        print(total.item() / 50)

When it is fine
---------------
Not reported: reads every N steps, reads inside an optimizer step (closures) or a library, scripts that act in an
environment (`env.step(action.item())`), and the CPU, where nothing waits. It is a warning if at least 5% of the step
could be saved, otherwise advice.
"""

import ast
from typing import Final

from trueloop.event import DeviceReads, Place, ReadLine, RunEnded
from trueloop.rules.rule import Finding, Findings, Rule, Severity
from trueloop.usercode.source import called_name, calls_in, source_of

__all__ = ["GpuSyncEveryStep"]

WORTH: Final = 0.05  # Share of a step to save for a warning: at most the shorter of device and host time, which overlap
SHOWN: Final = {"bool": "if / bool()", "float": "float()", "int": "int()", "repr": "print()", "format": "an f-string"}
"""How the read is written, if it is not a method."""


class GpuSyncEveryStep(Rule, code="SPD102", severity=Severity.ADVICE):
    not_applicable = "no steps were taken on a GPU"

    def __init__(self) -> None:
        self._rows: list[DeviceReads] = []

    def on_device_reads(self, event: DeviceReads) -> None:
        self._rows.append(event)

    def on_run_ended(self, event: RunEnded) -> Findings:
        """Lines that read in every measured sequence of steps, not only in the first one."""
        for row in self._rows[-1:]:
            always = set.intersection(*({line.place for line in known.lines} for known in self._rows))
            for line in row.lines:
                if line.place in always and not _uses_environment(line.place):
                    yield self._report(row, line)

    def _report(self, row: DeviceReads, line: ReadLine) -> Finding:
        won = min(row.waited_ms, row.step_ms - row.waited_ms) / row.step_ms if row.step_ms else 0.0
        how = ", ".join(SHOWN.get(reader, f".{reader}()") for reader in line.readers)
        return self.finding(
            row,
            f"`{how}` reads from the {row.device} device in every step and waits {line.waited_ms:.2f} ms. All such "
            f"lines wait {row.waited_ms:.2f} ms of a {row.step_ms:.2f} ms step.",
            fix="Keep the value on the device (`loss.detach()`), and read it every N steps or once per epoch.",
            evidence={
                "device": row.device,
                "readers": list(line.readers),
                "waited_ms": round(line.waited_ms, 3),
                "waited_ms_by_all_lines": round(row.waited_ms, 3),
                "step_ms": round(row.step_ms, 3),
                "could_be_saved": round(max(won, 0.0), 3),
                "steps": row.steps,
            },
            place=line.place,
            severity=Severity.WARNING if won >= WORTH else Severity.ADVICE,
        )


def _uses_environment(place: Place) -> bool:
    """Does the script step an environment, which needs its action at once?"""
    for call in calls_in(source_of(place.path).tree):
        if called_name(call) == "step" and call.args and isinstance(call.func, ast.Attribute):
            owner = ast.unparse(call.func.value).lower().split(".")[-1]
            if owner.rstrip("s").endswith(("env", "environment")):
                return True
    return False
