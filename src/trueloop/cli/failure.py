"""Whose failure is it? What the user's model, data or recipe raise inside ours is theirs: shown as Python shows it,
exit code 1."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trueloop.errors import BadRecipe, TrueloopError

__all__ = ["Outcome", "is_theirs", "user_errors", "with_their_errors"]

THEIRS: Final = 1
"""The exit code of a Python program that ends by an exception."""
_HOUSE: Final = Path(__file__).parent.parent
_CALLS_MODULES: Final = str(Path("torch", "nn", "modules", "module.py"))
_LIBRARIES: Final = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib"))


@dataclass(slots=True)
class Outcome:
    """The exit code of a verb."""

    code: int = 0


@contextmanager
def user_errors(outcome: Outcome) -> Iterator[None]:
    """Around the work of a verb: prints errors of the user's code and sets the exit code. Our own errors and refusals
    go on to `main`."""
    try:
        yield
    except BadRecipe as error:
        if error.__cause__ is None:
            raise
        _show(error.__cause__)
        print(f"trueloop: {error}", file=sys.stderr)
        outcome.code = THEIRS
    except TrueloopError:
        raise
    except KeyboardInterrupt:
        print(
            "trueloop: interrupted. Checkpoints that were written are whole: `trueloop runs` shows where runs stand.",
            file=sys.stderr,
        )
        outcome.code = 130
    except Exception as error:
        if not is_theirs(error):
            raise
        _show(error)
        print(f"trueloop: {_said(error)} `trueloop runs` shows where the run stands.", file=sys.stderr)
        outcome.code = THEIRS


def with_their_errors(work: Callable[[], int]) -> int:
    """Does the work of a verb inside `user_errors`; the exit code."""
    outcome = Outcome()
    with user_errors(outcome):
        outcome.code = work()
    return outcome.code


def is_theirs(error: BaseException) -> bool:
    """Did it come from the user's files, from inside a model, or from a device whose memory is full?"""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return _is_memory(error) or any(_is_users(file) or file.endswith(_CALLS_MODULES) for file in files)


def _is_users(file: str) -> bool:
    path = Path(file)
    return (
        path.is_file()
        and not any(path.is_relative_to(place) for place in (_HOUSE, *_LIBRARIES))
        and "site-packages" not in path.parts
    )


def _is_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def _said(error: BaseException) -> str:
    if _is_memory(error):
        return "memory is full. `--set accumulate=2` computes the same numbers with half the activations;"
    return "the error above comes from the recipe's own code."


def _show(error: BaseException) -> None:
    """As Python shows it, without our frames and those with which torch calls a module."""
    shown = traceback.TracebackException.from_exception(error)
    for one in _chain(shown):
        one.stack = traceback.StackSummary.from_list([frame for frame in one.stack if not _is_noise(frame.filename)])
    print("".join(shown.format()), file=sys.stderr, end="")


def _chain(first: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """An exception and those that it came from."""
    current: traceback.TracebackException | None = first
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__


def _is_noise(file: str) -> bool:
    ours = Path(file).is_relative_to(_HOUSE) and not Path(file).is_relative_to(_HOUSE / "recipes")
    return ours or file.endswith(_CALLS_MODULES)
