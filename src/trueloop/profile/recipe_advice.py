"""Advice in the words of a recipe: `--set workers=4` instead of `DataLoader(..., num_workers=4)`. Pure: no torch."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from trueloop.results.profile import Advice, Profile

__all__ = ["in_recipe_words"]

WORDS: Final[Mapping[str, tuple[str, str]]] = {  # key of an advice -> field of a recipe, its value (empty: a number)
    "workers": ("workers", ""),
    "resident": ("where", "resident"),
    "pin": ("pin", "true"),
    "graph": ("program", "cuda_graphs"),
    "compile": ("compile", "default"),
    "threads": ("threads", ""),
    "batch": ("batch", ""),
}
OURS: Final = ("fused", "read", "accumulate")  # the engine's own loop, which a recipe cannot change


def in_recipe_words(profile: Profile, recipe: Mapping[str, Any]) -> Profile:
    """Without what the recipe does already, or cannot change."""
    return replace(profile, advice=tuple(filter(None, (_in_words(each, recipe) for each in profile.advice))))


def _in_words(advice: Advice, recipe: Mapping[str, Any]) -> Advice | None:
    if advice.key in OURS:
        return None
    if advice.key == "precision":
        name, value = "precision", "bf16" if "bfloat16" in advice.what else "tf32"
    elif advice.key in WORDS:
        name, value = WORDS[advice.key]
        value = value or next(iter(re.findall(r"\d+", advice.what)), "")
        if advice.key == "batch":  # a factor
            value = str(int(value or 1) * int(recipe.get("batch") or 1))
    else:
        return advice
    head = advice.what.partition(":")[0]
    if recipe.get("step") is not None and advice.key in ("graph", "compile"):  # refused with a step of one's own
        own = f"{head}: return `torch.compile(model)` from the recipe's `model`"
        return replace(advice, what=own) if advice.key == "compile" else None
    if str(recipe.get(name)).lower() == value:
        return None
    return replace(advice, what=f"{head}: --set {name}={value}")
