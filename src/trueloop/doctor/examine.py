"""Script + rules -> verdict: watch a program while it runs, and the processes that it starts."""

import os
from dataclasses import replace

from trueloop.doctor.child_reports import merge_children
from trueloop.doctor.children import Children
from trueloop.doctor.launch import Program, run
from trueloop.doctor.ranks import ignore_sigterm, merge_reports
from trueloop.doctor.traceback import exit_process, show
from trueloop.doctor.watch import Watch
from trueloop.results.check import Verdict

__all__ = ["examine"]


def examine(program: Program, watch: Watch) -> tuple[Verdict, BaseException | None]:
    """Run the program under the watch. The second value is the exception that ended it, without trueloop's frames."""
    children = Children(watch.options)
    watch.start()
    with children.followed():
        outcome, error = run(program)
    if os.getpid() != watch.pid:  # a forked child reached the end of the script: it ends as it would have, unreported
        if error is not None:
            show(error)
        exit_process(error, outcome.exit_code)
    ignore_sigterm()
    found, failures, unwatched = children.collect()
    verdict = merge_children(watch.stop(outcome, error), found, failures, watch.cross_rank)
    verdict = replace(verdict, unwatched=unwatched)
    verdict = replace(verdict, notes=(*verdict.notes, *program.notes()))
    return merge_reports(verdict, watch.cross_rank), error
