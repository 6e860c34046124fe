"""`trueloop check SCRIPT ...`."""

from __future__ import annotations

from trueloop.doctor.examine import examine
from trueloop.doctor.launch import find_script
from trueloop.doctor.watch import Watch
from trueloop.report.terminal import print_verdict

__all__ = ["check"]


def check(arguments: list[str]) -> int:
    program = find_script(arguments[0], arguments[1:])
    verdict, error = examine(program, Watch(script=arguments[0]))
    if error:
        import traceback

        traceback.print_exception(error)
    print_verdict(verdict)
    return verdict.exit_code(None)
