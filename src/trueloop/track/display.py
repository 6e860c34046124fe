"""How a run is shown: a progress bar in a terminal, plain lines elsewhere."""

import os
import sys
from typing import TextIO

from trueloop.hook import Hook
from trueloop.track.plain_log import PlainLog

__all__ = ["choose_display"]


def choose_display(to: TextIO | None = None) -> Hook:
    """NO_COLOR removes the colors, not the bar; with TERM=dumb nothing can be redrawn, so there is no bar."""
    to = to or sys.stdout
    if not to.isatty() or os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        return PlainLog(to)
    from trueloop.track.progress_bar import ProgressBar  # importing rich takes a tenth of a second

    return ProgressBar(to)
