"""Jupyter notebooks: their code cells as Python, each with a name that reports show. Works without Jupyter.

Lines of IPython (`%load_ext ..`, `!pip ..`, `x?`) become calls of its shell, where IPython is installed; otherwise they
are left out and listed. Line numbers stay those of the cell.
"""

import ast
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["Cell", "Notebook", "NotebookError", "cell_in_kernel", "is_cell", "notebook_of", "read_notebook"]

_CELL: Final = re.compile(r"^(?P<file>.*)(?:(?<=\.ipynb), cell \d+|:\d+, %%\w+)$")
"""`book.ipynb, cell 3`; and in an exported notebook, where a cell with a magic is one line: `book.py:19, %%time`."""
_NUMBER: Final = re.compile(r"^In\s?\[(\d+)\]$")
_MAGIC: Final = re.compile(r"^(?P<indent>\s*)(?:[%!?]|[\w.,\s\[\]'\"]+=\s*[%!]|.*\?\s*$)")
_STATEMENT: Final = re.compile(r"^(?P<indent>\s*)%(?:time|timeit|prun|memit)\s+(?:-\w+\s*\d*\s+)*(?P<code>\S.*)$")
_WRAPPERS: Final = ("%%time", "%%timeit", "%%capture", "%%prun", "%%memit", "%%check", "%%python", "%%python3")
"""Cell magics that run the rest of the cell as Python."""


class NotebookError(Exception):
    """The file is not a notebook of Python code; the message says why."""


@dataclass(frozen=True, slots=True)
class Cell:
    name: str  # The file name of its code: `book.ipynb, cell 3`
    text: str


@dataclass(frozen=True, slots=True)
class Notebook:
    cells: tuple[Cell, ...]
    left_out: tuple[str, ...]  # 'cell 1, line 2: %load_ext autoreload'


def read_notebook(path: str, content: bytes, to_python: Callable[[str], str] | None = None) -> Notebook:
    """The code cells, counted from 1: as `In [n]` after 'Restart and run all'. `to_python`: IPython's own."""
    try:
        book = json.loads(content)
        language = book.get("metadata", {}).get("kernelspec", {}).get("language", "python")
        sheets = book["cells"] if "cells" in book else [c for sheet in book["worksheets"] for c in sheet["cells"]]
        code = [cell for cell in sheets if cell["cell_type"] == "code"]
        texts = [cell.get("source", cell.get("input", "")) for cell in code]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotebookError(f"is not a valid notebook ({type(error).__name__}: {error})") from None
    if language.lower() != "python":
        raise NotebookError(f"is a notebook of {language}, not of Python")
    if not any("".join(text).strip() for text in texts):
        raise NotebookError("has no code cell, so there is nothing to run")
    cells, left_out = [], []
    for number, source in enumerate(texts, 1):
        text, lines = _as_python("".join(source), to_python)
        cells.append(Cell(f"{path}, cell {number}", text))
        left_out += [f"cell {number}, line {line}: {said}" for line, said in lines]
    return Notebook(tuple(cells), tuple(left_out))


def _as_python(text: str, to_python: Callable[[str], str] | None) -> tuple[str, list[tuple[int, str]]]:
    """The cell as Python, and the lines of IPython that were left out."""
    lines = text.splitlines()
    left_out: list[tuple[int, str]] = []
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    if lines and lines[first].startswith("%%"):
        if lines[first].split()[0] in _WRAPPERS:
            left_out.append((first + 1, lines[first]))
            lines[first] = ""
        elif to_python is None:
            return "\n" * len(lines), [(first + 1, f"{lines[first]} (the whole cell)")]
        else:
            call = to_python("\n".join([*lines[first:], ""])).rstrip("\n")
            return "\n" * first + call + "\n" * (len(lines) - first), []
    for _ in range(len(lines)):
        wrong = _line_that_does_not_parse(lines)
        if wrong is None or not _replace(lines, wrong, left_out, to_python):
            break
    return "\n".join([*lines, ""]), left_out


def _line_that_does_not_parse(lines: list[str]) -> int | None:
    try:
        ast.parse("\n".join([*lines, ""]))
    except SyntaxError as error:
        return min(max(1, error.lineno or 1), len(lines)) - 1
    return None


def _replace(
    lines: list[str], at: int, left_out: list[tuple[int, str]], to_python: Callable[[str], str] | None
) -> bool:
    """Replace a line of IPython, and its continued lines, by a call of its shell or `pass`; `%time f()` by `f()`."""
    while at > 0 and lines[at - 1].endswith("\\") and not _MAGIC.match(lines[at]):
        at -= 1
    magic, statement = _MAGIC.match(lines[at]), _STATEMENT.match(lines[at])
    if magic is None:
        return False
    last = at
    while lines[last].endswith("\\") and last + 1 < len(lines):
        last += 1
    if statement is None and to_python is not None:
        call = to_python("\n".join([*lines[at : last + 1], ""]).lstrip()).rstrip("\n")
        if "\n" in call or call == lines[at].strip():  # IPython does not know it either
            return False
        lines[at : last + 1] = [magic["indent"] + call, *[""] * (last - at)]
        return True
    left_out.append((at + 1, lines[at].strip()))
    if statement is not None:
        lines[at] = statement["indent"] + statement["code"]
        return True
    target = lines[at].partition("=")[0].strip()
    assigned = f"{target} = []" if "=" in magic.group() and target.isidentifier() else "pass"
    lines[at : last + 1] = [magic["indent"] + assigned, *[""] * (last - at)]
    return True


def is_cell(path: str) -> bool:
    """Is it the name of a cell, of a notebook file or of a running kernel?"""
    return _CELL.match(path) is not None or cell_in_kernel(path) != ""


def notebook_of(path: str) -> str:
    """The notebook of a cell's name; empty for other names."""
    found = _CELL.match(path)
    return found["file"] if found else ""


def cell_in_kernel(path: str) -> str:
    """`cell 3`, if a running IPython compiled code under this name: a temporary file, or `<ipython-input-..>`.

    Its number is the one beside the cell: `In [3]`.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    label = getattr(getattr(shell, "compile", None), "format_code_name", lambda _: None)(path)
    number = _NUMBER.search(label[1]) if isinstance(label, tuple) and len(label) == 2 else None
    return f"cell {number[1]}" if number is not None else ""
