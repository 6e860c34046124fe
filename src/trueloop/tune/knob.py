"""What all knobs share, and how they are found: the folder `knobs/` is the registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import ClassVar

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import OBJECTIVES, Changes, Objective
from trueloop.tune.machine_facts import Here

__all__ = ["Knob", "all_knobs"]


class Knob(ABC):
    """Fields of a recipe that belong together, and the values that are worth trying here."""

    name: ClassVar[str]
    expected: ClassVar[Mapping[str, float]]
    """Device -> the gain that can be hoped for, times: what promises most is tried first. A device that is not named:
    1."""
    helps: ClassVar[tuple[Objective, ...]] = OBJECTIVES
    fields: ClassVar[tuple[str, ...]]
    """What it turns: a field that the user has set is left alone."""

    @abstractmethod
    def options(self, recipe: Recipe, here: Here) -> list[Changes]:
        """Values that differ from the recipe's, the most promising first; none: `why_not` says why."""

    @abstractmethod
    def why_not(self, recipe: Recipe, here: Here) -> str:
        """Why it has nothing to offer for this recipe here, as a clause; asked only if `options` gives none."""

    def hope(self, here: Here) -> float:
        return self.expected.get(here.device, 1.0)


def all_knobs(here: Here) -> list[Knob]:
    """One of each, the most promising here first."""
    folder = Path(__file__).with_name("knobs")
    modules = [
        import_module(f"trueloop.tune.knobs.{file.stem}")
        for file in sorted(folder.glob("*.py"))
        if file.stem != "__init__"
    ]
    kinds = [kind for module in modules for kind in vars(module).values() if _is_knob(kind, module.__name__)]
    return sorted((kind() for kind in kinds), key=lambda knob: -knob.hope(here))


def _is_knob(kind: object, module: str) -> bool:
    return isinstance(kind, type) and issubclass(kind, Knob) and kind.__module__ == module
