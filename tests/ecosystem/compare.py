"""Did two runs of a script print the same? Times, rates and addresses may differ; every other number must not."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["first_difference"]

_NUMBER: Final = r"[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?"
_VOLATILE: Final = (
    re.compile(rf"(?:{_NUMBER}\s*(?:ms|us|seconds|secs|sec|s|min|m|h|it/s|steps/s))+(?![A-Za-z])(?:/\w+)?"),
    re.compile(
        rf"\b(?:time|elapsed|eta|mfu|sps|ms/batch|step_time|dt|Time|Data|Elapsed|SPS)\b\W{{0,4}}\s*{_NUMBER}\s*(?:\(\s*{_NUMBER}\))?"
    ),
    re.compile(rf"ms/batch\s+{_NUMBER}"),
    re.compile(rf"\w*(?:runtime|per_second)\b\W{{0,12}}{_NUMBER}"),
    re.compile(rf"took {_NUMBER}"),
    re.compile(r"\d\d?:\d\d(?::\d\d)?(?:\.\d+)?"),
    re.compile(r"0x[0-9a-f]+"),
    re.compile(r"\b(?:default|cache)-[0-9a-f]{16}\b"),
    re.compile(r"\b1[5-9]\d{8}\b"),
    re.compile(r"/\S*/trueloop-ecosystem-\S*?/(?:plain|checked)\b"),
)
"""What a clock or an address shows: durations with a unit, named times, times of day, pointers, seconds since 1970, our
own folders."""


def first_difference(plain: str, checked: str, *, cut: bool) -> str:
    """The first line that differs, or nothing. `cut`: both runs were ended early, so that the longer one may go on."""
    left, right = _lines(plain), _lines(checked)
    for number, (a, b) in enumerate(zip(left, right, strict=False), 1):
        if a != b:
            return f"line {number}: {a!r} became {b!r}"
    if len(left) != len(right) and not cut:
        return f"{len(left)} lines became {len(right)}"
    return ""


def _lines(text: str) -> list[str]:
    for pattern in _VOLATILE:
        text = pattern.sub("<t>", text)
    return [line.rstrip() for line in re.split(r"[\r\n\b]+", text) if line.strip()]
