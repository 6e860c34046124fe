"""Script + rules -> verdict: watch a program while it runs."""

from __future__ import annotations

from trueloop.doctor.launch import Program, run
from trueloop.doctor.watch import Watch
from trueloop.verdict import Verdict

__all__ = ["examine"]


def examine(program: Program, watch: Watch) -> tuple[Verdict, BaseException | None]:
    """Run the program under the watch. The second value is what ended it, if anything did."""
    watch.start()
    outcome, error = run(program)
    return watch.stop(outcome), error
