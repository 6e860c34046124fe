"""A copy of this file is the `sitecustomize` that Python imports at the start of a program that a checked script has
started: see children.py.

It puts the environment back as the script left it, then imports the `sitecustomize` that this one stands before.
"""

import contextlib
import os
import sys

__all__ = []


def _begin() -> None:
    folder, prefix = os.environ.pop("TRUELOOP_CHILDREN", ""), os.environ.pop("TRUELOOP_PREFIX", "")
    before = os.environ.pop("TRUELOOP_PYTHONPATH", "")
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if path != here]
    if before:
        os.environ["PYTHONPATH"] = before
    else:
        os.environ.pop("PYTHONPATH", None)
    if folder and prefix == sys.prefix:  # the same Python, so the same trueloop and the same torch
        from trueloop.doctor.children import begin_program

        begin_program(folder)


def _next_one() -> None:
    own = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", own)


if __name__ == "sitecustomize":
    with contextlib.suppress(Exception):  # the program then runs as it would have, unwatched
        _begin()
    _next_one()
