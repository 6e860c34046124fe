"""`trueloop.watch()`: the rules of `trueloop check` from inside a script or a notebook, with a run folder."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from trueloop.doctor.cell_reports import notebook_name, running_shell
from trueloop.doctor.watch import Watch
from trueloop.doctor.watch import watch as start_watch
from trueloop.session.check_run import CheckRun, name_of_script, say
from trueloop.usercode.settings import load_settings

__all__ = ["watch"]


def watch(
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    budget: float | None = None,
    record: str | Path | None = None,
    name: str = "",
    runs: str | Path | None = None,
    run: bool = True,
) -> Watch:
    """Apply the rules of `trueloop check` to the code that follows, in a script or a notebook.

    `trueloop.watch()` as the first line of a script reports when the program ends. `with trueloop.watch() as w:` around
    a loop reports at the end of the block, and `w.findings` holds the findings. Losses, learning rates and findings are
    kept in runs/NAME: `name` and `runs` choose it, `run=False` keeps nothing.
    """

    def open_run() -> CheckRun | None:
        folder = load_settings(Path.cwd()).runs if runs is None else str(runs)
        if folder is None or os.environ.get("RANK", "0") != "0":
            return None
        shell = running_shell()
        script = sys.argv[0] if shell is None else notebook_name(shell)
        stem = "notebook" if shell is not None else "script"
        stem = name_of_script(script) if script.endswith((".py", ".ipynb")) else stem
        arguments = sys.argv[1:] if shell is None else []
        found, why = CheckRun.create(Path(folder), name or stem, script, arguments, named=bool(name))
        if why:
            say(why)
        return found

    more = {"open_run": open_run} if run else {}
    return start_watch(select=select, ignore=ignore, budget=budget, record=record, **more)
