"""Exception -> explanation: the first kind that recognises it. The folder is the registry: every other file in it is a
kind.

A kind is a file with a function `explain(scene)` that returns an explanation or, if it does not recognise the crash,
None.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Final

import torch

from trueloop.crash.explanation import Explanation
from trueloop.crash.scene import Scene
from trueloop.results.check import Verdict

__all__ = ["BASES", "all_kinds", "explain", "explained"]

BASES: Final = frozenset({"__init__", "explain", "explanation", "origin", "scene"})
"""Files that kinds share; the others are kinds."""


@lru_cache(maxsize=1)
def all_kinds() -> dict[str, Callable[[Scene], Explanation | None]]:
    """Each kind's function, by the kind's name."""
    names = sorted(file.stem for file in Path(__file__).parent.glob("*.py") if file.stem not in BASES)
    return {name.replace("_", "-"): import_module(f"trueloop.crash.{name}").explain for name in names}


def explain(error: BaseException) -> Explanation | None:
    """What an exception means in the user's terms; None if it is of no known kind.

    Looks at the live frames of its traceback, so it must be asked before those are gone; keeps nothing of them.
    """
    grad_enabled = torch.is_grad_enabled()
    with torch.no_grad():
        for one in _chain(error):
            scene = Scene.of(one, grad_enabled)
            for kind in all_kinds().values() if scene is not None else ():
                assert scene is not None
                explanation = kind(scene)
                if explanation is not None:
                    return explanation
    return None


def explained(verdict: Verdict, error: BaseException | None) -> Verdict:
    """The verdict with what the script's own exception means. That we cannot say must never hide that exception."""
    if error is None or verdict.outcome.reason != "exception":
        return verdict
    try:
        return replace(verdict, crash=explain(error))
    except Exception:  # noqa: BLE001 - whatever goes wrong here is ours, and is reported as ours
        return replace(verdict, failures=(*verdict.failures, f"explaining the crash failed:\n{traceback.format_exc()}"))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, then what it was raised from."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
