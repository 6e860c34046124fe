"""`check --changed[=REF]`: run a script only if its code changed: the script, or a file of yours that it imports."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueloop.errors import Misuse
from trueloop.results.check import Outcome, Verdict, Watched, counted
from trueloop.session.changed_files import changed_files
from trueloop.usercode.imports import imported_files

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["unchanged"]

_SCRIPTS: Final = (".py", ".ipynb")


def unchanged(target: list[str], ref: str, path_of: Callable[[list[str]], str]) -> Verdict | None:
    """What to report instead of running the script; None if it changed. `path_of`: its file."""
    if len(target) > 1 and not target[0].endswith(_SCRIPTS) and target[1].endswith(_SCRIPTS):
        better = f"`trueloop check --changed={target[0]} {target[1]}`"
        raise Misuse(f"--changed takes a commit after `=` only. Nothing was run: type {better}.")
    # only a module, or a script that does not exist, needs torch here
    script = target[0] if os.path.isfile(target[0]) else path_of(target)
    changed = changed_files(Path(script).absolute().parent, ref)
    imported = imported_files(script)
    by_name = imported.by_name and any(file.endswith(".py") for file in changed)
    if by_name or imported.files & changed:
        return None
    beside = len(imported.files) - 1
    files = f" and {counted(beside, 'file')} of yours that it imports" if beside else ""
    summary = f"not run: {script}{files} did not change since {ref}"
    return Verdict((), Watched(script, 0, 0, 0, 0, (), (), 0), (), Outcome("finished"), summary=summary)
