"""Any value as JSON can hold it."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from trueloop.event import Place
from trueloop.finding import Severity
from trueloop.usercode.source import shown_path, shown_place

__all__ = ["as_plain", "place_keys"]


def as_plain(value: object) -> Any:
    """JSON has no NaN, Inf, tuples or sets: non-finite numbers become text, other values their fields or their text."""
    match value:
        case Severity():
            return value.word
        case bool() | int() | str() | None:
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Place():
            return shown_place(value)
        case Mapping():
            return {str(key): as_plain(item) for key, item in value.items()}
        case set() | frozenset():
            return sorted((as_plain(item) for item in value), key=str)
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {each.name: as_plain(getattr(value, each.name)) for each in fields(value)}
        case Iterable() if not hasattr(value, "__fspath__"):
            return [as_plain(item) for item in value]
        case _:
            return str(value)


def place_keys(place: Place | None) -> dict[str, Any]:
    return {"path": shown_path(place.path) if place else None, "line": place.line if place else None}
