"""The command of a child process of Python. `python -m` and `python -c` import from the current folder first, which may
be a stranger's with a numpy.py in it; `trueloop` itself does not."""

import os
import sys

__all__ = ["child_python"]


def child_python(*words: str) -> list[str]:
    """With this process' own choice: `python -m trueloop` has the current folder among its modules."""
    return [sys.executable, *(() if {"", os.getcwd()} & set(sys.path) else ("-P",)), *words]
