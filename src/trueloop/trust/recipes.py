"""The recipe file that a run names is code. It is executed if the run was trained here, or if the user says so."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from trueloop.errors import Misuse
from trueloop.trust.made_here import is_made_here, is_trusted, stamp

__all__ = ["MADE_HERE", "check_recipe", "recipe_stamp"]

MADE_HERE: Final = "made_here"  # The field of run.json


def recipe_stamp(origin: Mapping[str, Any] | None) -> str:
    """For run.json. `origin`: how the recipe is found again; None: it is not a file that trueloop would execute."""
    return stamp(_facts(origin)) if origin else ""


def check_recipe(run: Path, origin: Mapping[str, Any], kept: Any) -> None:
    """Raises Misuse before a stranger's code runs. `kept`: what run.json has as its stamp."""
    word = origin["recipe"]
    if not word.endswith(".py") or is_trusted():
        return
    inside = Path(word).resolve().is_relative_to(run.resolve())  # it may have come with the folder
    if is_made_here(_facts(origin), kept) and not inside:
        return
    why = "lies in that folder" if inside else "was not recorded by you on this machine"
    what = f"{run} names the recipe {word}, which {why}. This command would execute it."
    raise Misuse(f"{what} Nothing was run: if you trust the file, add --trust (in Python: set TRUELOOP_TRUST=1).")


def _facts(origin: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": "run", "recipe": origin["recipe"]}
