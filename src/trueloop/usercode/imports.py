"""Which files of the user's a script imports, read from its source: nothing is executed."""

import ast
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from trueloop.usercode.ownership import is_users
from trueloop.usercode.source import called_name, calls_in

__all__ = ["ImportedFiles", "imported_files"]

_BY_NAME: Final = frozenset(
    {"import_module", "__import__", "run_path", "run_module", "exec", "spec_from_file_location"}
)


@dataclass(frozen=True, slots=True)
class ImportedFiles:
    files: frozenset[str]  # the script and what it imports, full paths
    by_name: bool  # one of them loads code by a name that is not in its source: there may be more files


def imported_files(script: str) -> ImportedFiles:
    """The script and the files of the user's that it imports, through all of them."""
    script = os.path.realpath(script)
    folders = (os.path.dirname(script), os.getcwd(), *sys.path)
    roots = list(dict.fromkeys(map(os.path.realpath, folders)))
    files: set[str] = set()
    by_name = False
    waiting = [script]
    while waiting:
        file = waiting.pop()
        if file in files:
            continue
        files.add(file)
        tree = _tree(file)
        by_name = by_name or tree is None or any(called_name(call) in _BY_NAME for call in calls_in(tree))
        for start, parts in _names(tree, file) if tree is not None else ():
            waiting += _resolved(parts, roots if start is None else [start])
    return ImportedFiles(frozenset(files), by_name)


def _tree(file: str) -> ast.Module | None:
    """None for what is not Python: a notebook, an extension."""
    try:
        with open(file, "rb") as opened:
            return ast.parse(opened.read())
    except (OSError, SyntaxError, ValueError):
        return None


def _names(tree: ast.Module, file: str) -> Iterator[tuple[str | None, Sequence[str]]]:
    """(folder to begin in, or None for the search path; the parts of the name). A name may be a module's or not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((None, alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = None
            if node.level:
                start = os.path.dirname(file)
                for _ in range(node.level - 1):
                    start = os.path.dirname(start)
            parts = node.module.split(".") if node.module else []
            yield from ((start, [*parts, alias.name]) for alias in node.names)


def _resolved(parts: Sequence[str], roots: list[str]) -> list[str]:
    """The files that importing a name may run: the packages around it, and the module, wherever it is found."""
    found: list[str] = []
    for root in [root for root in roots if _exists(os.path.join(root, parts[0]))] or _installed(parts[0]):
        folder = root
        for part in parts:
            folder = os.path.join(folder, part)
            found += [file for file in (os.path.join(folder, "__init__.py"), f"{folder}.py") if os.path.isfile(file)]
    return [os.path.realpath(file) for file in found if is_users(file)]


def _exists(path: str) -> bool:
    return os.path.isdir(path) or os.path.isfile(f"{path}.py")


def _installed(name: str) -> list[str]:
    """The folder of a package that an editable install finds: it may be on no path."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return []
    places = [] if spec is None else [*(spec.submodule_search_locations or ()), spec.origin or ""]
    return [os.path.dirname(place) for place in places if os.path.exists(place)][:1]
