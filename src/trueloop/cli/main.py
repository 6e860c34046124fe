"""`trueloop VERB ...`: each verb is a file beside this one, loaded when it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    from trueloop.cli.check import check

    return check(arguments[1:])
