"""A run on disk: what it was, what it said, what was found.

    DIR/run.json        the script, versions, machine, how it ended
    DIR/events.jsonl    one event a line: {"event": "Backward", "step": 3, ...}

Events are facts, so a recorded run can be judged again later by newer rules, on a machine without torch.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, TextIO

from trueloop.errors import Misuse, NotARun
from trueloop.event import EVENTS, Event

__all__ = ["Recorder", "event_from", "event_to", "read_events", "read_run"]

FORMAT = 1


def event_to(event: Event) -> dict[str, Any]:
    return {"event": type(event).__name__, **dataclasses.asdict(event)}


def event_from(data: dict[str, Any]) -> Event:
    """The event a line of events.jsonl holds. Unknown names raise KeyError: they come from a newer trueloop."""
    fields = dict(data)
    built = _build(EVENTS[fields.pop("event")], fields)
    assert isinstance(built, Event)
    return built


@lru_cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _build(kind: Any, value: Any) -> Any:
    """JSON back into what the annotation says: tuples, nested dataclasses, None."""
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
    return value


class Recorder:
    """Writes a run while it happens; line by line, so that a crash loses nothing."""

    def __init__(self, folder: Path) -> None:
        if (folder / "events.jsonl").exists():
            raise Misuse(f"{folder} holds a recorded run already. Nothing was run: choose another folder for --record.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._events: TextIO = (folder / "events.jsonl").open("w", encoding="utf-8")
        except OSError as error:
            raise Misuse(f"{folder} cannot be written ({error.strerror}). Nothing was run.") from None
        self.folder = folder

    def write(self, event: Event) -> None:
        self._events.write(json.dumps(event_to(event)) + "\n")

    def close(self, about: dict[str, Any]) -> None:
        self._events.close()
        (self.folder / "run.json").write_text(json.dumps({"format": FORMAT, **about}, indent=2) + "\n", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._events.close()


def read_run(folder: Path) -> dict[str, Any]:
    """What run.json says; empty if the run was killed before it could be written."""
    if not (folder / "events.jsonl").is_file():
        raise NotARun(f"{folder} holds no recorded run (no events.jsonl). `trueloop check --record {folder} SCRIPT` makes one.")
    file = folder / "run.json"
    about: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if about.get("format", FORMAT) > FORMAT:
        raise NotARun(f"{folder} was recorded by a newer trueloop (format {about['format']}). Update: pip install -U trueloop")
    return about


def read_events(folder: Path) -> Iterator[Event]:
    with (folder / "events.jsonl").open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield event_from(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                if not line.endswith("\n"):
                    return  # the run was killed in the middle of its last line
                raise NotARun(f"{folder / 'events.jsonl'}:{number} cannot be read ({error}).") from None
