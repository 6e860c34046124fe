"""`%load_ext trueloop`: the magics `%check` and `%%check` of IPython and Jupyter."""

from contextlib import ExitStack
from typing import Any

from trueloop.doctor.cell_reports import tracebacks_without_ours
from trueloop.doctor.watch import current_watch, watch_cell
from trueloop.errors import TrueloopError
from trueloop.report import document_of
from trueloop.report.notebook import CellOutput
from trueloop.taps.place import frame_here
from trueloop.usercode.notebook import cell_in_kernel

__all__ = ["load_ipython_extension"]


class CellFailed(Exception):
    """The cell under `%%check` raised: IPython has shown its traceback already."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext trueloop`."""

    def check(line: str, cell: str | None = None) -> CellOutput | None:
        """`%check`: what is found so far. `%%check [RULES]`: run the cell and report its silent training bugs."""
        if cell is None:
            return _status()
        _check_cell(shell, line, cell)
        return None

    shell.register_magic_function(check, magic_kind="line_cell", magic_name="check")


def _status() -> CellOutput | None:
    running = current_watch()
    if running is None:
        print("trueloop watches nothing yet: type `w = trueloop.watch()`, or put %%check above a cell.")  # noqa: T201
        return None
    return CellOutput(document_of(running.so_far()))


def _check_cell(shell: Any, line: str, cell: str) -> None:
    """Under a watch that runs already, the cell is one of its cells."""
    rules = [word for word in line.replace(",", " ").split() if word]
    made = None
    if current_watch() is None:
        try:
            made = watch_cell(rules)
        except TrueloopError as refused:
            raise _usage_error(f"%%check {line}: {refused}") from None
    elif rules:
        raise _usage_error(f"%%check {line}: `trueloop.watch()` runs already, with rules of its own. Drop {line}.")
    with ExitStack() as stack:
        if made is not None:
            stack.enter_context(tracebacks_without_ours(shell))
        result = _run(shell, cell)
    error = result.error_before_exec or result.error_in_exec
    if made is not None:
        made.close(error)
    if error is not None:
        raise CellFailed(f"{type(error).__name__}: {error} (traceback above)") from None


def _run(shell: Any, cell: str) -> Any:
    """Run the rest of the cell: with the cell's number, and its lines counted as in the notebook."""
    outer = frame_here()
    number = cell_in_kernel(outer.f_code.co_filename).removeprefix("cell ") if outer is not None else ""
    before = shell.execution_count
    shell.execution_count = int(number) if number else before
    try:
        return shell.run_cell(f"# %%check\n{cell}")
    finally:
        shell.execution_count = before


def _usage_error(message: str) -> Exception:
    """IPython shows it as one line."""
    from IPython.core.error import UsageError

    made: Exception = UsageError(message)
    return made
