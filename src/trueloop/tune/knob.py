"""The base of all knobs; the folder `knobs/` is the registry."""

from abc import ABC, abstractmethod
from importlib import import_module
from pathlib import Path
from typing import ClassVar

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import OBJECTIVES, Changes, Objective
from trueloop.tune.machine_facts import MachineFacts

__all__ = ["Knob", "all_knobs"]


class Knob(ABC):
    """Recipe fields that belong together, and the values worth trying."""

    name: ClassVar[str]
    on_cuda: ClassVar[float] = 1.0  # Expected gain as a factor: the most promising knob is tried first
    on_cpu: ClassVar[float] = 1.0
    helps: ClassVar[tuple[Objective, ...]] = OBJECTIVES
    fields: ClassVar[tuple[str, ...]]  # The recipe fields. A field that the user has set is not changed.

    @abstractmethod
    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        """Values other than the recipe's, the most promising first. Empty: see `why_not`."""

    @abstractmethod
    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        """Why there are no options, as a clause."""

    def hope(self, facts: MachineFacts) -> float:
        return {"cuda": self.on_cuda, "cpu": self.on_cpu}.get(facts.device, 1.0)


def all_knobs(facts: MachineFacts) -> list[Knob]:
    """The most promising first."""
    folder = Path(__file__).with_name("knobs")
    modules = [
        import_module(f"trueloop.tune.knobs.{file.stem}")
        for file in sorted(folder.glob("*.py"))
        if file.stem != "__init__"
    ]
    kinds = [kind for module in modules for kind in vars(module).values() if _is_knob(kind, module.__name__)]
    return sorted((kind() for kind in kinds), key=lambda knob: -knob.hope(facts))


def _is_knob(kind: object, module: str) -> bool:
    return isinstance(kind, type) and issubclass(kind, Knob) and kind.__module__ == module
