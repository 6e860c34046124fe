"""Evidence, places and source lines of a finding, as people read them."""

import os
from collections.abc import Mapping
from linecache import getline
from typing import Any, Final

from trueloop.event import Place
from trueloop.results.plain import as_plain
from trueloop.usercode.source import shown_path, shown_place

__all__ = ["as_words", "evidence_line", "lines_around", "where"]

LONGEST: Final = 160  # characters of one value in a report for people; the JSON report has all of it


def as_words(evidence: Mapping[str, object]) -> dict[str, str]:
    """Label -> short text; empty values are left out."""
    words = {name.replace("_", " "): _words(as_plain(value)) for name, value in evidence.items()}
    return {name: text if len(text) <= LONGEST else text[: LONGEST - 1] + "…" for name, text in words.items() if text}


def evidence_line(evidence: Mapping[str, object]) -> str:
    """'optimizer: SGD · learning rate: 0.05'."""
    return " · ".join(f"{name}: {text}" for name, text in as_words(evidence).items())


def where(place: Place | None) -> str:
    """'train.py:14', relative to the working directory; empty without a place."""
    return shown_place(place) if place else ""


def lines_around(place: Place | None, source: str, margin: int) -> list[tuple[int, str]]:
    """(number, line) of a place and up to `margin` lines on each side; the line alone if the file has changed since."""
    if place is None or not source.strip():
        return []
    if getline(place.path, place.line).rstrip("\n") != source:
        return [(place.line, source)]
    numbers = range(max(1, place.line - margin), place.line + margin + 1)
    around = [(number, getline(place.path, number).rstrip("\n")) for number in numbers]
    while around and not around[0][1].strip():
        del around[0]
    while around and not around[-1][1].strip():
        del around[-1]
    return around


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
