"""How long ranks may wait before they count as hung: --hang-after, TRUELOOP_HANG_AFTER or the default. No torch."""

import math
import os
import re
from collections.abc import Mapping
from typing import Final

from trueloop.errors import Misuse

__all__ = ["HANG_AFTER", "VARIABLE", "hang_after", "parse_seconds"]

HANG_AFTER: Final = 300.0  # seconds, as in `trueloop.doctor.hang`, whose import would load torch; a test compares them
VARIABLE: Final = "TRUELOOP_HANG_AFTER"  # for `trueloop.train()`, and commands without --hang-after
_UNITS: Final = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def parse_seconds(text: str, said_by: str) -> float:
    """Seconds from '60', '60s' or '5min'."""
    found = re.fullmatch(r"([0-9.]+)\s*([a-z]*)", text.strip())
    try:
        seconds = float(found[1]) * _UNITS[found[2]] if found else math.nan
    except (ValueError, KeyError):
        seconds = math.nan
    if not 1 <= seconds < math.inf:
        cure = f"write a number of seconds, 1 or more, as in {said_by} 60"
        raise Misuse(f"{said_by} cannot be {text!r}. Nothing was run: {cure}.")
    return seconds


def hang_after(environment: Mapping[str, str] = os.environ) -> float:
    """Seconds from the environment, or the default."""
    return parse_seconds(environment[VARIABLE], VARIABLE) if environment.get(VARIABLE) else HANG_AFTER
