"""The files of a run, read by address. A missing value raises `Absent`; there are no defaults.

run.json#recipe.lr             a value of a JSON file; proofs.json#CLAIM.result: results by claim
facts.json#data.train
metrics.jsonl:12#accuracy      a value of line 12
metrics.jsonl?train#loss       the values of all rows of a kind, as a list
events.jsonl:7#parameters
checkpoints/step-00000171/manifest.json#files
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, final

from trueloop.errors import NotARun
from trueloop.results.readiness import Figure
from trueloop.trust.files import parse_json, read_regular

__all__ = ["Absent", "Record"]

FROM_SAMPLES: Final = ("leakage", "samples", "classes", "baseline")  # topics of facts.json that need samples
_ADDRESS: Final = re.compile(r"(?P<file>[^#?:]+)(?::(?P<line>\d+))?(?:\?(?P<kind>\w+))?(?:#(?P<path>.+))?")


class Absent(Exception):
    """The evidence is missing."""

    def __init__(self, address: str, because: str = "") -> None:
        super().__init__(address, because)
        self.address, self.because = address, because


@final
class Record:
    """A folder of evidence. `prefix`: its path relative to the note: '../other/'."""

    def __init__(self, folder: Path, prefix: str = "", *, name: str = "") -> None:
        self.folder, self.prefix = folder, prefix
        self.name = name or str(folder)  # what a user types for it
        self._files: dict[str, Any] = {}

    def figure(self, address: str) -> Figure:
        """Raises Absent; null counts as absent."""
        value = self.value(address)
        if value is None:
            raise Absent(address, self.reason(address))
        return Figure(value, f"[{self.prefix}{address}]")

    def number(self, address: str) -> Figure:
        """A figure to compute with: NaN and Inf are strings in JSON."""
        found = self.figure(address)
        try:
            return Figure(found.value if isinstance(found.value, (int, float)) else float(found.value), found.source)
        except (TypeError, ValueError):
            raise Absent(address, f"it is {found.value!r}, not a number") from None

    def count(self, address: str) -> Figure:
        """The length of a list, or the number of rows. Raises Absent."""
        value = self.value(address)
        if value is None:
            raise Absent(address, self.reason(address))
        return Figure(len(value), f"count([{self.prefix}{address}])")

    def value(self, address: str) -> Any:
        """None: missing."""
        parts = _ADDRESS.fullmatch(address)
        assert parts is not None, address
        file, line, kind, path = parts["file"], parts["line"], parts["kind"], parts["path"]
        whole = self._read(file)
        if kind is not None:
            found = [_step_down(whole[number - 1], path) for number in self.lines(file, kind)]
            return [each for each in found if each is not None] or None
        if line is not None:
            whole = whole[int(line) - 1] if whole is not None and int(line) <= len(whole) else None
        elif file == "proofs.json" and whole is not None:
            whole = _by_claim(whole, self.folder / file)
        return whole if path is None else _step_down(whole, path)

    def has(self, address: str) -> bool:
        return self.value(address) is not None

    def lines(self, file: str, kind: str) -> list[int]:
        """Line numbers of a kind: rows 'valid' of metrics.jsonl, events 'ModelSeen' of events.jsonl."""
        rows: _Rows | None = self._read(file)
        return [] if rows is None else rows.of(kind)

    def reason(self, address: str) -> str:
        """Why facts.json does not have it, if it gives a reason."""
        facts = self._read("facts.json")
        missing: Mapping[str, str] = facts.get("missing") or {} if isinstance(facts, dict) else {}
        topic = address.partition("#")[2].partition(".")[0]
        unread = [f"{name}: {why}" for name, why in missing.items() if name.startswith("samples of ")]
        return missing.get(topic) or ("; ".join(unread) if topic in FROM_SAMPLES else "")

    def address(self, file: str) -> str:
        """The path of the file, relative to the note."""
        return f"{self.prefix}{file}"

    def _read(self, file: str) -> Any:
        if file not in self._files:
            path = self.folder / file
            self._files[file] = _parsed(path) if path.is_file() else None
        return self._files[file]


def _by_claim(whole: Any, path: Path) -> dict[str, Any]:
    try:
        return {str(each["claim"]): each for each in whole["proofs"]}
    except (TypeError, KeyError) as error:
        raise NotARun(f"{path} is damaged ({error}). Remove it, and `trueloop probe` writes it again.") from None


def _parsed(path: Path) -> Any:
    try:
        text = read_regular(path).decode("utf-8", "backslashreplace")
        return _Rows(text.splitlines(), path) if path.suffix == ".jsonl" else parse_json(text)
    except (OSError, ValueError) as error:
        raise NotARun(f"{path} cannot be read ({error}). No note was written.") from None


@final
class _Rows:
    """One JSON object per line, parsed on access: statistics of layers are long, and not needed here."""

    def __init__(self, lines: list[str], path: Path) -> None:
        self._lines, self._path = lines, path

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> Any:
        try:
            return parse_json(self._lines[index])
        except ValueError as error:
            if index == len(self._lines) - 1:
                return None  # a kill truncated the last line
            raise NotARun(f"{self._path}:{index + 1} is damaged ({error}). No note was written.") from None

    def of(self, kind: str) -> list[int]:
        """The kind is the first key of each line."""
        begin = (f'{{"kind": "{kind}"', f'{{"event": "{kind}"')
        numbers = (number for number, line in enumerate(self._lines, 1) if line.startswith(begin))
        return [number for number in numbers if self[number - 1] is not None]


def _step_down(value: Any, path: str) -> Any:
    for key in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value
