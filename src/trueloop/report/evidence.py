"""What stands behind a finding, made ready to show: its evidence, its place, the lines around it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from linecache import getline
from typing import Any, Final

from trueloop.event import Place
from trueloop.usercode.source import shown_path

__all__ = ["as_json", "as_words", "lines_around", "where"]

LONGEST: Final = 160
"""Characters of one value that a person is shown; the JSON report holds all of it."""


def as_json(value: object) -> Any:
    """JSON has no nan, no inf and no tuples: numbers that are none become words, what is unknown its text."""
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Place():
            return f"{shown_path(value.path)}:{value.line}"
        case Mapping():
            return {str(key): as_json(item) for key, item in value.items()}
        case list() | tuple():
            return [as_json(item) for item in value]
        case set() | frozenset():
            return sorted((as_json(item) for item in value), key=str)
        case _:
            return str(value)


def as_words(evidence: Mapping[str, object]) -> dict[str, str]:
    """Each piece of evidence as (label, short text); what is empty is left out."""
    said = {name.replace("_", " "): _words(as_json(value)) for name, value in evidence.items()}
    return {name: text if len(text) <= LONGEST else text[: LONGEST - 1] + "…" for name, text in said.items() if text}


def where(place: Place | None) -> str:
    """'train.py:14', relative to the working directory; empty without a place."""
    return f"{shown_path(place.path)}:{place.line}" if place else ""


def lines_around(place: Place | None, source: str, margin: int) -> list[tuple[int, str]]:
    """(number, line) of a place and up to `margin` lines on each side; the line alone where the file is no longer what
    it was."""
    if place is None or not source.strip():
        return []
    if getline(place.path, place.line).rstrip("\n") != source:
        return [(place.line, source)]
    around = [
        (number, getline(place.path, number)) for number in range(max(1, place.line - margin), place.line + margin + 1)
    ]
    while around and not around[0][1].strip():
        del around[0]
    while around and not around[-1][1].strip():
        del around[-1]
    return [(number, line.rstrip("\n")) for number, line in around]


def _words(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.4g}"
        case str():
            return shown_path(value) if value.startswith(os.sep) else value
        case dict():
            return ", ".join(f"{key} {_words(item)}" for key, item in value.items())
        case list():
            return ", ".join(_words(item) for item in value)
        case None:
            return ""
        case _:
            return str(value)
