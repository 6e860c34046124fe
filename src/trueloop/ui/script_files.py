"""The source of a run: only the files and definitions that its run.json names, and of files only a Python script.

A run folder is hostile input: a run.json that names another kind of file, a link, a device or a huge file shows nothing
of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final

import trueloop
from trueloop.ui.bounded_files import open_inside, stamp, text_of

__all__ = ["ScriptFile", "is_same_file", "source_files"]

MOST_BYTES: Final = 1 << 20
MOST_LINES: Final = 20_000
MOST_DEFINITIONS: Final = 200


@dataclass(frozen=True, slots=True)
class ScriptFile:
    """`path` is absolute, and empty for code that run.json itself keeps."""

    name: str
    text: str = ""
    path: str = ""
    note: str = ""  # why there is no text, or what to know about it


def source_files(about: Mapping[str, Any], root: Path) -> list[ScriptFile]:
    """`root` is the folder of runs: a recipe's file is named relative to the folder that training was started in."""
    return [*_script(about), *_recipe_file(about, root), *_definitions(about)]


def _script(about: Mapping[str, Any]) -> Iterator[ScriptFile]:
    path, shown = about.get("path"), about.get("script")
    if isinstance(path, str) and path:
        yield _read(Path(path), str(shown or PurePath(path).name), _number(about.get("started")))


def _recipe_file(about: Mapping[str, Any], root: Path) -> Iterator[ScriptFile]:
    origin = about.get("origin")
    word = origin.get("recipe") if isinstance(origin, dict) else None
    if not isinstance(word, str) or not word:
        return
    file = word.partition(".py:")[0] + ".py" if ".py:" in word else word
    if file.endswith(".py"):
        yield _read(root.parent / file, file, _number(about.get("started")))  # an absolute one stays as it is
    elif file.replace("-", "_").isidentifier():
        bundled = Path(trueloop.__file__).parent / "recipes" / f"{file.replace('-', '_')}.py"
        if bundled.is_file():
            yield _read(bundled, f"trueloop/recipes/{bundled.name}", 0.0)


def _definitions(about: Mapping[str, Any]) -> Iterator[ScriptFile]:
    """Functions and classes of the user's behind a recipe, as they were when the run began."""
    code = about.get("code")
    if isinstance(code, dict):
        for name, text in list(code.items())[:MOST_DEFINITIONS]:
            if isinstance(text, str) and "\n" in text:
                yield ScriptFile(str(name)[:200], text[:MOST_BYTES], note="As it was when the run began.")


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _read(path: Path, name: str, started: float) -> ScriptFile:
    """`started`: when the run began; 0: the file is not one that the user edits."""
    name = name[:200]
    if path.suffix != ".py":
        return ScriptFile(name, note=f"{name} is not a Python script: it is not shown.")
    try:
        parent = path.parent.resolve()
    except (OSError, RuntimeError):
        parent = path.parent
    file = open_inside(parent, path.name)
    if file is None:
        return ScriptFile(name, note=f"{name} cannot be read: it was moved, removed, or is a link.")
    with file:
        data = file.read(MOST_BYTES + 1)
    text = "\n".join(text_of(data[:MOST_BYTES]).splitlines()[:MOST_LINES])
    note = f"Only the first {MOST_BYTES >> 20} MB are shown." if len(data) > MOST_BYTES else ""
    if started and stamp(parent, path.name)[2] / 1e9 > started + 1:
        note = f"{name} was edited after this run began: lines may have moved. {note}".rstrip()
    return ScriptFile(name, text, str(parent / path.name), note)


def is_same_file(path: str, shown: Any) -> bool:
    """Is this the path of a finding? Those are relative to the folder that trueloop was started in."""
    if not isinstance(shown, str) or not shown or not path:
        return False
    parts = [part for part in PurePath(shown).parts if part not in ("..", ".")]
    return bool(parts) and PurePath(path).parts[-len(parts) :] == tuple(parts)
