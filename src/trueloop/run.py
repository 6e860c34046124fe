"""A run on disk: what it was, what it said, what was found.

    DIR/run.json        the script, versions, machine, how it ended
    DIR/events.jsonl    one event a line: {"event": "Backward", "step": 3, ...}

Events are facts, so a recorded run can be judged again later by newer rules, on a machine without torch.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Self, TextIO

from trueloop.errors import Misuse, NotARun
from trueloop.event import EVENTS, Event

__all__ = ["Recorder", "event_from", "event_to", "read_events", "read_run"]

FORMAT: Final = 1
"""Raised when a recording can no longer be read by an older trueloop."""


def event_to(event: Event) -> dict[str, Any]:
    """What a line of events.jsonl holds: strict JSON, so that other tools can read it too."""
    return {"event": type(event).__name__, **_plain(dataclasses.asdict(event))}


def event_from(data: dict[str, Any]) -> Event:
    """The event a line of events.jsonl holds. Unknown names raise KeyError: they come from a newer trueloop."""
    fields = dict(data)
    built = _build(EVENTS[fields.pop("event")], fields)
    assert isinstance(built, Event)
    return built


def _plain(value: Any) -> Any:
    """JSON has no nan and no inf: they are written as words."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


@lru_cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _build(kind: Any, value: Any) -> Any:
    """JSON back into what the annotation says: tuples, nested dataclasses, nan, None."""
    if value is None:
        return None
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return _build(next(k for k in typing.get_args(kind) if k is not type(None)), value)
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)
        if len(inner) == 2 and inner[1] is Ellipsis:
            return tuple(_build(inner[0], item) for item in value)
        return tuple(_build(k, item) for k, item in zip(inner, value, strict=True))
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = _hints(kind)
        return kind(**{name: _build(hints[name], item) for name, item in value.items()})
    return float(value) if kind is float else value


class Recorder:
    """Writes a run while it happens; line by line, so that a crash loses nothing."""

    def __init__(self, folder: Path) -> None:
        if (folder / "events.jsonl").exists():
            raise Misuse(f"{folder} holds a recorded run already. Nothing was run: choose another folder for --record.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._events: TextIO = (folder / "events.jsonl").open(
                "w", encoding="utf-8", errors="backslashreplace", buffering=1
            )
        except OSError as error:
            raise Misuse(
                f"{folder} cannot be written ({error.strerror}). Nothing was run: choose another folder for --record."
            ) from None
        self.folder = folder.absolute()
        self.failure = ""
        """Why the recording ended before the run did (a full disk); empty while all is well."""

    def write(self, event: Event) -> None:
        line = json.dumps(event_to(event), allow_nan=False) + "\n"
        if not self.failure:
            self._try(lambda: self._events.write(line))

    def close(self, about: dict[str, Any]) -> None:
        from trueloop import __version__

        text = json.dumps({"format": FORMAT, "trueloop": __version__, **about}, indent=2) + "\n"
        self._try(self._events.close)
        self._try(lambda: (self.folder / "run.json").write_text(text, encoding="utf-8"))

    def _try(self, write: Callable[[], object]) -> None:
        """A disk that is full must not end somebody's training: the recording ends instead, and the report says so."""
        try:
            write()
        except OSError as error:
            self.failure = self.failure or f"the recording in {self.folder} ended early: {error.strerror}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._events.close()


def read_run(folder: Path) -> dict[str, Any]:
    """What run.json says; empty if the run was killed before it could be written."""
    if not folder.is_dir():
        raise NotARun(
            f"There is no folder {folder}. Nothing was judged: `trueloop check --record {folder} SCRIPT` makes a recorded run."
        )
    if not (folder / "events.jsonl").is_file():
        raise NotARun(
            f"{folder} holds no recorded run (no events.jsonl). Nothing was judged: `trueloop check --record DIR SCRIPT` makes one."
        )
    file = folder / "run.json"
    if not file.is_file():
        return {}
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
        recorded = int(about.get("format", FORMAT))
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise NotARun(
            f"{file} is damaged ({error}). Nothing was judged: record the run again, or remove that file to judge without it."
        ) from None
    if recorded > FORMAT:
        raise NotARun(
            f"{folder} was recorded by a newer trueloop (format {recorded}, this one reads {FORMAT}). "
            "Nothing was judged: pip install -U trueloop"
        )
    return dict(about)


def read_events(folder: Path) -> Iterator[Event]:
    """The events of a recorded run, in their order. A last line that was cut off by a kill is left out."""
    file = folder / "events.jsonl"
    try:
        lines = file.open(encoding="utf-8")
    except OSError as error:
        raise NotARun(f"{file} cannot be read ({error.strerror}). Nothing was judged.") from None
    with lines:
        for number, line in enumerate(_decoded(lines, file), 1):
            try:
                yield event_from(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                if not line.endswith("\n"):
                    return
                raise NotARun(_damage(file, number, error)) from None


def _decoded(lines: TextIO, file: Path) -> Iterator[str]:
    try:
        yield from lines
    except UnicodeDecodeError as error:
        raise NotARun(f"{file} is damaged ({error.reason}). Nothing was judged: record the run again.") from None


def _damage(file: Path, number: int, error: Exception) -> str:
    if isinstance(error, ValueError):
        return f"{file}:{number} is damaged ({error}). Nothing was judged: record the run again."
    return (
        f"{file}:{number} holds an event that this trueloop does not know ({error}): another version recorded it. "
        "Nothing was judged: judge with that version (run.json names it), or record the run again."
    )
