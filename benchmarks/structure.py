"""The structure of the package in numbers, at one or more revisions: `python benchmarks/structure.py 482a6d9 HEAD`.

Rooms are the folders and loose modules of `src/trueloop`. A verb passes through a room if `cli/VERB.py` imports a file of
it, directly or through other files, at import time or inside functions.
"""  # noqa: E501

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

VERBS: Final = ("check", "train", "export")


def main(revisions: list[str]) -> None:
    columns = [figures(revision) for revision in revisions]
    print("| | " + " | ".join(revisions) + " |\n|---|" + "---|" * len(revisions))
    for row in columns[0]:
        print(f"| {row} | " + " | ".join(str(column[row]) for column in columns) + " |")


def figures(revision: str) -> dict[str, int]:
    files = dict(_files(revision))
    imports = {name: {target for target in imports_of(text) if target in files} for name, text in files.items()}
    edges = {(room_of(name), room_of(target)) for name, targets in imports.items() for target in targets}
    rooms = {room_of(name) for name in files} - {""}
    reached = {verb: {room_of(name) for name in _reach(f"trueloop.cli.{verb}", imports)} - {""} for verb in VERBS}
    loose = [
        name
        for name in files
        if name.count(".") == 1 and f"{name}.__init__" not in files and name not in _folders(files)
    ]
    return {
        "lines": sum(text.count("\n") for text in files.values()),
        "files": len(files),
        "rooms": len(rooms),
        "loose modules": len([name for name in loose if not name.endswith("__main__")]),
        "imports between rooms": len({(a, b) for a, b in edges if a != b and a and b}),
        "files in import cycles": sum(len(group) for group in _cycles(imports) if len(group) > 1),
        **{f"rooms that `{verb}` passes through": len(found) for verb, found in reached.items()},
    }


def _files(revision: str) -> Iterator[tuple[str, str]]:
    listed = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", revision, "src/trueloop"], capture_output=True, text=True, check=True
    ).stdout.split()
    for path in listed:
        if path.endswith(".py"):
            text = subprocess.run(
                ["git", "show", f"{revision}:{path}"], capture_output=True, text=True, check=True
            ).stdout
            yield path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", "."), text


def _folders(files: dict[str, str]) -> set[str]:
    return {".".join(name.split(".")[:2]) for name in files if name.count(".") > 1}


def room_of(module: str) -> str:
    return [*module.split("."), ""][1]


def imports_of(text: str) -> Iterator[str]:
    """Modules that a file imports, lazily or not; those that only the type checker sees are left out."""
    tree = ast.parse(text)
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    hidden = {id(inner) for node in tests for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and id(node) not in hidden:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and id(node) not in hidden:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _reach(start: str, imports: dict[str, set[str]]) -> set[str]:
    found, ahead = {start}, [start]
    while ahead:
        new = imports.get(ahead.pop(), set()) - found
        found |= new
        ahead += new
    return found


def _cycles(imports: dict[str, set[str]]) -> list[set[str]]:
    """Strongly connected files: each reaches all others of its group."""
    reach = {name: _reach(name, imports) for name in imports}
    groups: dict[frozenset[str], set[str]] = {}
    for name in imports:
        group = frozenset(other for other in reach[name] if name in reach.get(other, set()))
        groups.setdefault(group, set()).add(name)
    return list(groups.values())


if __name__ == "__main__":
    main(sys.argv[1:] or ["HEAD"])
