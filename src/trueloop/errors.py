"""Every exception that trueloop raises, as a tree.

    TrueloopError
    ├── Misuse              the command or a setting is wrong; nothing was run (exit code 4)
    │   ├── UnknownRule     a code or name that no rule has
    │   ├── NoSuchScript    the script or module to run is not there
    │   ├── NotARun         a folder that holds no recorded run, or a damaged one
    │   ├── BadRecipe       a recipe that cannot be trained: all its mistakes at once
    │   ├── BadCheckpoint   a checkpoint that is damaged, incomplete, or not to be trusted
    │   ├── BadArtifact     an exported model that is damaged, of a later format, or made for another runtime
    │   └── BadData         data that cannot be learned from: file, row, what is wrong
    ├── CannotExport        a target cannot take the model, or answers otherwise than it; nothing is left of it (exit
    code 1) ├── CannotSave          a checkpoint could not be written; the earlier ones are whole (exit code 5) ├──
    Apart               the processes of a run have not met in time (exit code 6) └── MissingExtra        a feature
    needs a package that is not installed; the message is the command to type

What a script raises itself is never wrapped: it leaves trueloop as it left the script.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "Apart",
    "BadArtifact",
    "BadCheckpoint",
    "BadData",
    "BadRecipe",
    "CannotExport",
    "CannotSave",
    "MissingExtra",
    "Misuse",
    "NoSuchScript",
    "NotARun",
    "TrueloopError",
    "UnknownRule",
    "did_you_mean",
]


class TrueloopError(Exception):
    """The root of the tree."""


class Misuse(TrueloopError):
    """The command or a setting is wrong; nothing was run."""


class UnknownRule(Misuse):
    """A code or name that no rule has."""


class NoSuchScript(Misuse):
    """The script or module to run is not there."""


class NotARun(Misuse):
    """A folder that holds no recorded run, or a damaged one."""


class BadRecipe(Misuse):
    """A recipe that cannot be trained: all its mistakes at once."""


class BadData(Misuse):
    """Data that cannot be learned from: which file, which row, what is wrong."""


class BadCheckpoint(Misuse):
    """A checkpoint that is damaged, incomplete, or not to be trusted."""


class BadArtifact(Misuse):
    """An exported model that is damaged, of a later format, or made for another runtime."""


class CannotExport(TrueloopError):
    """A target cannot take the model, or the exported one answers otherwise; nothing is left of it."""


class CannotSave(TrueloopError):
    """A checkpoint could not be written; the earlier ones are whole."""


class Apart(TrueloopError):
    """The processes of a run have not met in time."""


class MissingExtra(TrueloopError):
    """A feature needs a package that is not installed."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """' Did you mean x?' for the nearest known word, or nothing."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" Did you mean {near[0]}?" if near else ""
