"""Exception -> explanation, by the first kind that recognizes it. The folder is the registry.

A kind is a file with a function `explain(scene)`, or a function `explain_<kind>(scene)` in a file of several. It
returns an explanation, or None if it does not recognize the crash.
"""

import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path

import torch

from trueloop.crash.explanation import Explanation
from trueloop.crash.scene import Scene
from trueloop.results.check import Verdict

__all__ = ["all_kinds", "explain", "explained"]


@lru_cache(maxsize=1)
def all_kinds() -> dict[str, Callable[[Scene], Explanation | None]]:
    """The function of each kind, by the kind's name, in alphabetical order."""
    this = Path(__file__)
    kinds: dict[str, Callable[[Scene], Explanation | None]] = {}
    for file in this.parent.glob("*.py"):
        members = vars(import_module(f"trueloop.crash.{file.stem}")) if file != this else {}
        for name, function in members.items():
            if name == "explain" or name.startswith("explain_"):
                kinds[file.stem if name == "explain" else name.removeprefix("explain_")] = function
    return {name.replace("_", "-"): kinds[name] for name in sorted(kinds)}


def explain(error: BaseException) -> Explanation | None:
    """What an exception means in the user's terms; None if no kind recognizes it.

    Reads the live frames of the traceback, so call it before they are gone. It keeps nothing of them.
    """
    grad_enabled = torch.is_grad_enabled()
    with torch.no_grad():
        for one in _chain(error):
            scene = Scene.of(one, grad_enabled)
            for name, kind in all_kinds().items() if scene is not None else ():
                explanation = kind(scene)  # type: ignore[arg-type]
                if explanation is not None:
                    return replace(explanation, kind=name)
    return None


def explained(verdict: Verdict, error: BaseException | None) -> Verdict:
    """The verdict with an explanation of the script's own exception. A failure to explain must never hide that one."""
    if error is None or verdict.outcome.reason != "exception":
        return verdict
    try:
        return replace(verdict, crash=explain(error))
    except Exception:  # noqa: BLE001 - trueloop's own failure, reported as such
        return replace(verdict, failures=(*verdict.failures, f"explaining the crash failed:\n{traceback.format_exc()}"))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, then those it was raised from."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
