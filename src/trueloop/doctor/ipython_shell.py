"""`get_ipython()` for notebooks and exported notebooks that run in this process: IPython's own shell where it is
installed, otherwise a stand-in that leaves magics and shell commands out, and lists them."""

import builtins
import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, Final, final

from trueloop.taps.place import frame_here
from trueloop.usercode.source import shown_path

__all__ = ["cell_to_python", "shell_for"]

PLAIN: Final = ("time", "timeit", "capture", "prun", "memit", "check", "python", "python3")
"""Cell magics that run their cell as Python. It is run as such, so that its lines can be named."""


def cell_to_python() -> Callable[[str], str] | None:
    """What turns magics and shell commands into Python; None if IPython is not installed."""
    try:
        from IPython.core.inputtransformer2 import TransformerManager
    except ImportError:
        return None
    to_python: Callable[[str], str] = TransformerManager().transform_cell
    return to_python


@contextmanager
def shell_for(main: ModuleType, left_out: list[str]) -> Iterator[Any]:
    """`get_ipython` and `display` of the program; the shell, or None if IPython is not installed."""
    if cell_to_python() is None:
        stand_in = _NoShell(main, left_out)
        vars(builtins).update(get_ipython=lambda: stand_in, display=print)
        yield None
        return
    with TemporaryDirectory(prefix="trueloop-ipython-") as folder:  # nothing is written into the user's ~/.ipython
        shell = _shell_class().instance(user_module=main, user_ns=vars(main), ipython_dir=folder, config=_quiet())
        kept = {name: value for name, value in vars(builtins).items() if name in ("exit", "quit", "open")}
        vars(main).update(kept)  # Python's own end the program, as in a script
        with shell.builtin_trap, shell.display_trap:
            yield shell


def _quiet() -> Any:
    from traitlets.config import Config

    return Config(HistoryManager={"enabled": False}, InteractiveShell={"colors": "nocolor"})


def _shell_class() -> Any:
    from IPython.core.interactiveshell import InteractiveShell

    class Shell(InteractiveShell):  # type: ignore[misc]
        def run_cell_magic(self, magic_name: str, line: str, cell: str) -> Any:
            if magic_name in PLAIN:
                return _run_as_python(magic_name, cell, self.user_ns)
            return InteractiveShell.run_cell_magic(self, magic_name, line, cell)

        def system(self, cmd: str) -> None:
            """With the script's own stdout, as it comes."""
            self.system_raw(cmd)

    return Shell


def _run_as_python(magic: str, cell: str, names: dict[str, Any]) -> None:
    frame = frame_here(2)
    at = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "script.py:0"
    name = f"{at}, %%{magic}"
    linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
    exec(compile(cell, name, "exec", dont_inherit=True), names)


@final
class _NoShell:
    """What an exported notebook asks of `get_ipython()`."""

    def __init__(self, main: ModuleType, left_out: list[str]) -> None:
        self._main, self._left_out = main, left_out

    def run_line_magic(self, magic_name: str, line: str, **_: Any) -> None:
        self._leave_out(f"%{magic_name} {line}")

    def magic(self, text: str) -> None:
        self._leave_out(f"%{text}")

    def run_cell_magic(self, magic_name: str, line: str, cell: str) -> None:
        if magic_name in PLAIN:
            _run_as_python(magic_name, cell, vars(self._main))
        else:
            self._leave_out(f"%%{magic_name} {line}")

    def system(self, command: str) -> None:
        self._leave_out(f"!{command}")

    def getoutput(self, command: str, **_: Any) -> list[str]:
        self._leave_out(f"!{command}")
        return []

    def _leave_out(self, text: str) -> None:
        frame = frame_here(2)
        at = f"{shown_path(frame.f_code.co_filename)}:{frame.f_lineno}: " if frame is not None else ""
        self._left_out.append(f"{at}{text.strip()}")
