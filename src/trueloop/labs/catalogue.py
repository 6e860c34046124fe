"""The folders are the registry: a lab is a file in one of them. Files are read, not imported: that would load torch."""

from __future__ import annotations

import ast
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trueloop.errors import Misuse, did_you_mean
from trueloop.results.lab import GROUPS, LabEntry

if TYPE_CHECKING:
    from trueloop.labs.lab import Lab

__all__ = ["about", "all_labs", "code_of", "digest", "entry_named", "lab_named"]

_HERE: Final = Path(__file__).parent


@cache
def all_labs() -> dict[str, LabEntry]:
    """Name -> lab, group by group."""
    files = [file for group in GROUPS for file in sorted((_HERE / group).glob("*.py")) if file.stem != "__init__"]
    return {entry.name: entry for entry in map(_entry, files)}


def _entry(file: Path) -> LabEntry:
    name, tree = file.stem.replace("_", "-"), ast.parse(file.read_text(encoding="utf-8"))
    question = (ast.get_docstring(tree) or "").partition("\n")[0].removeprefix(f"{name}: ")
    words = _keywords(tree)
    return LabEntry(
        name, file.parent.name, question, "exercise" in words, words.get("needs") or "", words.get("seconds") or 20
    )


def _keywords(tree: ast.Module) -> dict[str, Any]:
    """The arguments of `LAB = Lab(...)`; None: not a literal."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAB" and isinstance(node.value, ast.Call):
            pairs = [(each.arg or "", each.value) for each in node.value.keywords]
            return {name: value.value if isinstance(value, ast.Constant) else None for name, value in pairs}
    return {}


def entry_named(name: str) -> LabEntry:
    """Raises Misuse."""
    if name not in all_labs():
        near = did_you_mean(name, all_labs())
        raise Misuse(f"There is no lab {name!r}.{near} Nothing was run: `trueloop lab` lists all labs.")
    return all_labs()[name]


def _module(entry: LabEntry) -> str:
    return f"{entry.group}.{entry.name.replace('-', '_')}"


def lab_named(name: str) -> Lab[Any]:
    """Imported. Raises Misuse."""
    made: Lab[Any] = import_module(f"trueloop.labs.{_module(entry_named(name))}").LAB
    return made


def _file(name: str) -> Path:
    return (_HERE / _module(entry_named(name)).replace(".", "/")).with_suffix(".py")


def about(name: str) -> str:
    """The docstring of the lab below its question."""
    text = ast.get_docstring(ast.parse(_file(name).read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[2].strip()


def code_of(name: str) -> str:
    """The lab's source below its docstring."""
    text = _file(name).read_text(encoding="utf-8")
    first = ast.parse(text).body[0]
    return "\n".join(text.splitlines()[first.end_lineno :]).strip("\n")


def digest(name: str) -> str:
    """Of the lab's source."""
    return sha256(_file(name).read_bytes()).hexdigest()
