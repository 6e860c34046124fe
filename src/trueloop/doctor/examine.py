"""Script + rules -> verdict: watch a program while it runs."""

import os

from trueloop.doctor.launch import Program, run
from trueloop.doctor.ranks import ignore_sigterm, merge_reports
from trueloop.doctor.traceback import exit_process, show
from trueloop.doctor.watch import Watch
from trueloop.results.check import Verdict

__all__ = ["examine"]


def examine(program: Program, watch: Watch) -> tuple[Verdict, BaseException | None]:
    """Run the program under the watch. The second value is the exception that ended it, without trueloop's frames."""
    watch.start()
    outcome, error = run(program)
    if os.getpid() != watch.pid:  # a forked child reached the end of the script: it ends as it would have, unreported
        if error is not None:
            show(error)
        exit_process(error, outcome.exit_code)
    ignore_sigterm()
    return merge_reports(watch.stop(outcome, error), watch.cross_rank), error
