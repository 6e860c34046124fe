"""`--hang-after`: how long a rank may stand still before it is asked why."""

from __future__ import annotations

from argparse import _ActionsContainer

from trueloop.session.hang_watch import HANG_AFTER, hang_after, parse_seconds

__all__ = ["add_hang_after"]


def add_hang_after(parser: _ActionsContainer) -> None:
    waits = f"when to look why one of several ranks stands still: 60, 60s, 5min ({HANG_AFTER:.0f})"
    parser.add_argument("--hang-after", metavar="SECONDS", type=_seconds, default=hang_after(), help=waits)


def _seconds(text: str) -> float:
    return parse_seconds(text, "--hang-after")
