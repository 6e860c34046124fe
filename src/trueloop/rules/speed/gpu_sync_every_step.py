"""SPD102 gpu-sync-every-step: in each step the program waits for the device.

What it sees
------------
Lines of the user's that take a value from a device in every step of a row of steps: `.item()`, `.cpu()`, `.to("cpu")`,
`.tolist()`,
`float(t)`, `int(t)`, `bool(t)` (an `if` on a tensor), `print(t)`, `f"{t}"`; and for how long each of them waited.
Functions that wait inside (`nonzero`, a mask as an index) and reads in a library's own code are not seen.

Why it hurts
------------
A device works through a queue. Whoever asks for a value waits until the queue is empty, and while the program then
prepares the next step the device has nothing to do: the two take turns instead of working side by side.

Evidence
--------
The device, the line and how it reads, the waiting in each step, the length of a step, and the share that could overlap:
the smaller of the wait and of the rest of the step.

Use instead
-----------
    total += loss.detach()            # stays on the device
    if step % 50 == 0:
        print(total.item() / 50)

When it is fine
---------------
Reading every so many steps is not reported, nor are reads inside an optimizer's step (closures), those of a library,
and files that act in an environment (`env.step(action.item())`): the action is needed at once. On the CPU there is
nothing to wait for, and nothing is said: advice there would be noise in nearly every script. On a device it is a
warning where at least a twentieth of the step could be won, otherwise advice.
"""

from __future__ import annotations

import ast
from typing import Final, final

from trueloop.event import DeviceReads, Place, ReadLine, RunEnded
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import called_name, calls_in, source_of

__all__ = ["GpuSyncEveryStep"]

WORTH: Final = 0.05
"""Share of a step that must be to be won for a warning. A device and a program that no longer take turns need,
together, at least as long as the longer of the two: so no more can be won than the shorter."""
SHOWN: Final = {"bool": "if / bool()", "float": "float()", "int": "int()", "repr": "print()", "format": "an f-string"}
"""How a reader is written, where it is no method."""


@final
class GpuSyncEveryStep(Rule):
    code = "SPD102"
    name = "gpu-sync-every-step"
    severity = Severity.ADVICE
    not_applicable = "no steps were taken on a GPU"

    def __init__(self) -> None:
        self._rows: list[DeviceReads] = []

    def on_device_reads(self, event: DeviceReads) -> None:
        self._rows.append(event)

    def on_run_ended(self, event: RunEnded) -> Findings:
        """Lines that were there in every row of steps that was looked at: what only the first steps do is no habit."""
        for row in self._rows[-1:]:
            habits = set.intersection(*({line.place for line in known.lines} for known in self._rows))
            for line in row.lines:
                if line.place in habits and not _acts(line.place):
                    yield self._finding(row, line)

    def _finding(self, row: DeviceReads, line: ReadLine) -> Finding:
        won = min(row.waited_ms, row.step_ms - row.waited_ms) / row.step_ms if row.step_ms else 0.0
        how = ", ".join(SHOWN.get(reader, f".{reader}()") for reader in line.readers)
        return self.finding(
            row,
            f"This line reads from the {row.device} device in every step by {how}, and waits {line.waited_ms:.2f} ms each time; "
            f"all such lines together wait {row.waited_ms:.2f} ms of a step of {row.step_ms:.2f} ms.",
            fix="Keep it on the device (detach()), and read it every so many steps, or once at the end of the epoch.",
            evidence={
                "device": row.device,
                "readers": list(line.readers),
                "waited_ms": round(line.waited_ms, 3),
                "waited_ms_by_all_lines": round(row.waited_ms, 3),
                "step_ms": round(row.step_ms, 3),
                "could_be_won": round(max(won, 0.0), 3),
                "steps": row.steps,
            },
            place=line.place,
            severity=Severity.WARNING if won >= WORTH else Severity.ADVICE,
        )


def _acts(place: Place) -> bool:
    """Does the file drive an environment, which wants its action at once?"""
    for call in calls_in(source_of(place.path).tree):
        if called_name(call) == "step" and call.args and isinstance(call.func, ast.Attribute):
            owner = ast.unparse(call.func.value).lower().split(".")[-1]
            if owner.rstrip("s").endswith(("env", "environment")):
                return True
    return False
