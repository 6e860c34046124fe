"""A change to a script's folder, as new contents of files: from a unified diff, or from `OLD => NEW`."""

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Final

from trueloop.errors import Misuse
from trueloop.usercode.source import HUNK

__all__ = ["Contents", "apply_patch", "replace_text"]

Contents = dict[Path, str | None]  # File -> its new text; None: deleted
_NO_NEWLINE: Final = "\\"
_SEARCHED: Final = frozenset({".py", ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini"})
_LARGEST: Final = 1 << 20  # bytes of a file in which OLD is searched


@dataclass(frozen=True, slots=True)
class Hunk:
    start: int  # line of the old file, from 0
    old: tuple[str, ...]  # context and removed lines
    new: tuple[str, ...]  # context and added lines; both without line endings
    ends_bare: bool  # the new file has no newline at its end


def apply_patch(text: str, find: Callable[[str], Path | None]) -> Contents:
    """`find`: a name in the patch -> the file. Raises Misuse where the patch does not fit."""
    contents: Contents = {}
    for old_name, new_name, hunks in _files(text):
        name = new_name if new_name != "/dev/null" else old_name
        file = find(name)
        if file is None:
            raise Misuse(f"The patch changes {name}, which is not in the folder of the script. Nothing was run.")
        before = "" if old_name == "/dev/null" else _text(file)
        contents[file] = None if new_name == "/dev/null" else _patched(contents.get(file) or before, hunks, name)
    if not contents:
        raise Misuse("The patch holds no change. Nothing was run: a patch is a unified diff, as `check --diff` prints.")
    return contents


def _files(text: str) -> Iterator[tuple[str, str, list[Hunk]]]:
    lines = [line.rstrip("\r\n") for line in StringIO(text)]
    heads = [at for at, (old, new) in enumerate(pairwise(lines)) if old.startswith("--- ") and new.startswith("+++ ")]
    for head, end in pairwise([*heads, len(lines)]):
        old, new = (line[4:].split("\t")[0].strip() for line in lines[head : head + 2])
        yield old, new, list(_hunks(lines[head + 2 : end]))


def _hunks(lines: list[str]) -> Iterator[Hunk]:
    heads = [at for at, line in enumerate(lines) if HUNK.match(line)]
    for head, end in pairwise([*heads, len(lines)]):
        match = HUNK.match(lines[head])
        assert match is not None
        old: list[str] = []
        new: list[str] = []
        last, bare = " ", False
        left = int(match[2] or 1)
        for line in lines[head + 1 : end]:
            sign, rest = line[:1] or " ", line[1:]
            if sign == _NO_NEWLINE:
                bare = bare or last != "-"
                continue
            if sign not in " +-" or (sign != "+" and len(old) == left):
                break
            old += [rest] if sign != "+" else []
            new += [rest] if sign != "-" else []
            last = sign
        yield Hunk(int(match[1]) - (match[2] != "0"), tuple(old), tuple(new), bare)


def _patched(text: str, hunks: list[Hunk], name: str) -> str:
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.split(end)
    bare = lines[-1] != ""
    lines = lines if bare else lines[:-1]
    shift = 0
    for number, hunk in enumerate(hunks, 1):
        at = _place(lines, hunk, hunk.start + shift)
        if at is None:
            where = f"part {number} of {len(hunks)} (line {hunk.start + 1})"
            raise Misuse(f"The patch does not fit {name}: {where} does not match the file. Nothing was run.")
        lines[at : at + len(hunk.old)] = hunk.new
        shift = at - hunk.start + len(hunk.new) - len(hunk.old)
        if at + len(hunk.new) == len(lines) and hunk.new:
            bare = hunk.ends_bare
    return end.join(lines) + ("" if bare or not lines else end)


def _place(lines: list[str], hunk: Hunk, expected: int) -> int | None:
    """Where the old lines stand: as near to the expected line as possible."""
    size = len(hunk.old)
    fits = [at for at in range(len(lines) - size + 1) if tuple(lines[at : at + size]) == hunk.old]
    return min(fits, key=lambda at: abs(at - expected), default=None)


def replace_text(change: str, script: Path, folder: Path, known: Contents) -> Contents:
    """`OLD => NEW`, where OLD occurs once: in the script, otherwise in one other file of the folder."""
    old, sign, new = change.partition("=>")
    old, new = old.strip(" "), new.strip(" ")
    if not sign or not old:
        raise Misuse(f"--change cannot be {change!r}: expected 'OLD => NEW', as in 'lr=10 => lr=0.1'. Nothing was run.")
    text = known.get(script) or _text(script)
    if old in text:
        return {script: _once(text, old, new, script.name)}
    others = {file: text for file, text in _texts(folder) if file != script and old in text}
    if len(others) != 1:
        where = f"{script.name} does not contain {old!r}"
        more = f"{len(others)} other files do: write a patch" if others else "nor does any other file of its folder"
        raise Misuse(f"{where}, {more}. Nothing was run.")
    file, text = others.popitem()
    return {file: _once(known.get(file) or text, old, new, str(file.relative_to(folder)))}


def _once(text: str, old: str, new: str, name: str) -> str:
    if text.count(old) > 1:
        lines = [text.count("\n", 0, match.start()) + 1 for match in re.finditer(re.escape(old), text)]
        shown = ", ".join(map(str, lines[:6]))
        raise Misuse(f"{old!r} occurs {len(lines)} times in {name} (lines {shown}). Nothing was run: write more of it.")
    return text.replace(old, new)


def _texts(folder: Path) -> Iterator[tuple[Path, str]]:
    """Source and configuration files; files that are not UTF-8 are passed over."""
    for file in sorted(folder.rglob("*")):
        if file.suffix in _SEARCHED and file.is_file() and file.stat().st_size <= _LARGEST:
            with contextlib.suppress(Misuse):
                yield file, _text(file)


def _text(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            return opened.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(f"{file.name} cannot be changed ({error}). Nothing was run.") from None
