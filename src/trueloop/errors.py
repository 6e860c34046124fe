"""Every exception that trueloop raises, as a tree.

    TrueloopError
    ├── Misuse              the command or a setting is wrong; nothing was run (exit code 4)
    │   ├── UnknownRule     an unknown rule code or name
    │   ├── NoSuchScript    the script or module to run does not exist
    │   ├── NotARun         a folder without a recorded run, or with a damaged one
    │   ├── BadRecipe       a recipe that cannot be trained: all its mistakes at once
    │   ├── BadCheckpoint   a damaged, incomplete or untrusted checkpoint
    │   ├── BadArtifact     an exported model that is damaged, too new, or made for a different runtime
    │   └── BadData         unusable data: file, row, reason
    │       └── NotByIndex  data that come one after another, where samples by index are needed
    ├── CannotExport        the target does not support the model, or its outputs differ (exit code 1)
    ├── CannotSave          a checkpoint could not be written; earlier ones are still valid (exit code 5)
    ├── GuardFailed         a training with findings, under a Guard with `fail_on` (lightning, hf)
    ├── Apart               the processes of a run did not connect in time (exit code 6)
    └── MissingExtra        a feature needs a package that is not installed; the message is the command to type

An exception of the user's script is never wrapped: it leaves trueloop unchanged.
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
    "GuardFailed",
    "MissingExtra",
    "Misuse",
    "NoSuchScript",
    "NotARun",
    "NotByIndex",
    "TrueloopError",
    "UnknownRule",
    "did_you_mean",
]


class TrueloopError(Exception):
    """The root of the tree."""


class Misuse(TrueloopError):
    """The command or a setting is wrong; nothing was run."""


class UnknownRule(Misuse):
    """An unknown rule code or name."""


class NoSuchScript(Misuse):
    """The script or module to run does not exist."""


class NotARun(Misuse):
    """A folder without a recorded run, or with a damaged one."""


class BadRecipe(Misuse):
    """A recipe that cannot be trained: all its mistakes at once."""


class BadData(Misuse):
    """Unusable data: file, row, reason."""


class NotByIndex(BadData):
    """Data that come one after another, where samples by index are needed."""


class BadCheckpoint(Misuse):
    """A damaged, incomplete or untrusted checkpoint."""


class BadArtifact(Misuse):
    """An exported model that is damaged, too new, or made for a different runtime."""


class CannotExport(TrueloopError):
    """The target does not support the model, or its outputs differ; no artifact is left."""


class CannotSave(TrueloopError):
    """A checkpoint could not be written; earlier ones are still valid."""


class GuardFailed(TrueloopError):
    """A training has findings, and its Guard has `fail_on`; the training ended first."""


class Apart(TrueloopError):
    """The processes of a run did not connect in time."""


class MissingExtra(TrueloopError):
    """A feature needs a package that is not installed."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """' Did you mean x?' for the nearest known word, or nothing."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" Did you mean {near[0]}?" if near else ""
