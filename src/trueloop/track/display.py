"""Who shows a run: the bar for a person at a terminal, plain lines for everybody else."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from trueloop.hook import Hook
from trueloop.track.plain_log import PlainLog

__all__ = ["choose_display"]


def choose_display(to: TextIO | None = None) -> Hook:
    """NO_COLOR takes the colours away, not the bar; TERM=dumb takes the bar away, since it cannot be drawn over."""
    to = to or sys.stdout
    if not to.isatty() or os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        return PlainLog(to)
    from trueloop.track.progress_bar import ProgressBar  # a tenth of a second: only for who can see it

    return ProgressBar(to)
