"""A recorded run on disk.

    DIR/run.json        the script, versions, machine, how it ended
    DIR/events.jsonl    one event a line: {"event": "Backward", "step": 3, ...}

Events are facts, so newer rules can check a recorded run again, on a machine without torch.
"""

import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, Self, TextIO

from trueloop.errors import Misuse, NotARun
from trueloop.event import EVENTS, Event

__all__ = ["Recorder", "event_from", "event_to", "read_events", "read_run"]

MOST: Final = 1 << 28  # Bytes of run.json, and of one event
FORMAT: Final = 1  # Incremented when older versions can no longer read a recording


_RECORD: Final = "`trueloop check --record DIR SCRIPT`"


def event_to(event: Event) -> dict[str, Any]:
    """An event as a line of events.jsonl: strict JSON, so that other tools can read it."""
    return {"event": type(event).__name__, **_plain(event)}


def event_from(data: dict[str, Any]) -> Event:
    """The event of a line of events.jsonl. Unknown names raise KeyError: a newer trueloop wrote them."""
    fields = dict(data)
    built = _build(EVENTS[fields.pop("event")], fields)
    assert isinstance(built, Event)
    return built


def _plain(value: Any) -> Any:
    """JSON has no NaN and Inf: they are written as strings. Not by `dataclasses.asdict`, which copies each value."""
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    kind: type = type(value)
    names = _field_names(kind)
    return {name: _plain(getattr(value, name)) for name in names} if names else value


@cache
def _field_names(cls: type) -> tuple[str, ...]:
    """Empty: not a dataclass."""
    return tuple(field.name for field in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else ()


@lru_cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _build(kind: Any, value: Any) -> Any:
    """JSON converted to the annotated type: tuples, nested dataclasses, NaN, None."""
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
    """Writes a run line by line while it happens, so that a crash loses nothing."""

    def __init__(self, folder: Path) -> None:
        if (folder / "events.jsonl").exists():
            raise Misuse(
                f"{folder} already holds a recorded run. Nothing was run: choose a different folder for --record."
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / "events.jsonl"
            self._events: TextIO = file.open("w", encoding="utf-8", errors="backslashreplace", buffering=1)
        except OSError as error:
            cure = "Nothing was run: choose a different folder for --record."
            raise Misuse(f"{folder} cannot be written ({error.strerror}). {cure}") from None
        self.folder = folder.absolute()
        self.failure = ""
        """Why the recording ended early (a full disk); empty otherwise."""

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
        """A full disk must not end the training: the recording ends instead, and the report says so."""
        try:
            write()
        except OSError as error:
            self.failure = self.failure or f"the recording in {self.folder} ended early: {error.strerror}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._events.close()


def read_run(folder: Path) -> dict[str, Any]:
    """The contents of run.json; empty if the run was killed before it was written."""
    if not folder.is_dir():
        raise NotARun(f"There is no folder {folder}. Nothing was checked: record a run with {_RECORD}.")
    if not (folder / "events.jsonl").is_file():
        raise NotARun(f"{folder} has no events.jsonl. Nothing was checked: record a run with {_RECORD}.")
    file = folder / "run.json"
    if not file.is_file():
        return {}
    try:
        if file.stat().st_size > MOST:
            raise ValueError(f"it is larger than {MOST >> 20} MB")
        about = json.loads(file.read_text(encoding="utf-8"))
        recorded = int(about.get("format", FORMAT))
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        cure = "record the run again, or delete this file to check without it"
        raise NotARun(f"{file} is damaged ({error}). Nothing was checked: {cure}.") from None
    if recorded > FORMAT:
        raise NotARun(
            f"{folder} was recorded by a newer trueloop (format {recorded}, this one reads {FORMAT}). "
            "Nothing was checked: pip install -U trueloop"
        )
    return dict(about)


def read_events(folder: Path) -> Iterator[Event]:
    """The events of a recorded run, in order. An incomplete last line (a killed run) is skipped."""
    file = folder / "events.jsonl"
    try:
        lines = file.open(encoding="utf-8")
    except OSError as error:
        raise NotARun(f"{file} cannot be read ({error.strerror}). Nothing was checked.") from None
    with lines:
        for number, line in enumerate(_decoded(lines, file), 1):
            try:
                if len(line) > MOST:
                    raise ValueError(f"a line of more than {MOST >> 20} MB")
                yield event_from(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                if not line.endswith("\n"):
                    return
                raise NotARun(_damage(file, number, error)) from None


def _decoded(lines: TextIO, file: Path) -> Iterator[str]:
    try:
        while line := lines.readline(MOST + 1):  # never a line of terabytes
            yield line
    except UnicodeDecodeError as error:
        raise NotARun(f"{file} is damaged ({error.reason}). Nothing was checked: record the run again.") from None


def _damage(file: Path, number: int, error: Exception) -> str:
    if isinstance(error, ValueError):
        return f"{file}:{number} is damaged ({error}). Nothing was checked: record the run again."
    return (
        f"{file}:{number} holds an unknown event ({error}), recorded by a different version of trueloop. "
        "Nothing was checked: use that version (run.json names it), or record the run again."
    )
