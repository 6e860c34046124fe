"""`--hang-after`: how long a rank may stand still before it is asked why; and what a run of ours does then."""

from __future__ import annotations

import math
import os
import re
import sys
from argparse import _ActionsContainer
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from trueloop.errors import Misuse
from trueloop.finding import Finding

__all__ = ["add_hang_after", "seconds_of", "watched_for_hangs"]

HANG_AFTER: Final = 300.0
"""Seconds. The same as in `trueloop.doctor.hang`, whose import would load torch; a test keeps them together."""
STOPPED_ITSELF: Final = 5
"""docs/exit-codes.md"""
_UNITS: Final = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def add_hang_after(parser: _ActionsContainer) -> None:
    waits = f"when to look why one of several ranks stands still: 60, 60s, 5min ({HANG_AFTER:.0f})"
    parser.add_argument("--hang-after", metavar="SECONDS", type=seconds_of, default=HANG_AFTER, help=waits)


def seconds_of(text: str) -> float:
    """'60', '60s', '5min' in seconds."""
    found = re.fullmatch(r"([0-9.]+)\s*([a-z]*)", text.strip())
    try:
        seconds = float(found[1]) * _UNITS[found[2]] if found else math.nan
    except (ValueError, KeyError):
        seconds = math.nan
    if not 1 <= seconds < math.inf:
        raise Misuse(f"--hang-after cannot be {text!r}. Nothing was run: write a number of seconds, 1 or more, as in --hang-after 60.")
    return seconds


@contextmanager
def watched_for_hangs(hang_after: float) -> Iterator[None]:
    """Around a run of ours: ranks that can never meet again end it, with a paragraph that says why."""
    if int(os.environ.get("LOCAL_WORLD_SIZE", "1")) < 2:
        yield
        return
    from trueloop.doctor.vigil import vigil

    with vigil(hang_after, _show, STOPPED_ITSELF):
        yield


def _show(finding: Finding) -> None:
    from trueloop.report.terminal import print_finding

    print_finding(finding)
    print(f"    {finding.fix} More: `trueloop explain {finding.code}`", file=sys.stderr)
    print("The run was ended: its ranks would have waited on. `trueloop resume runs/NAME` goes on.", file=sys.stderr, flush=True)
