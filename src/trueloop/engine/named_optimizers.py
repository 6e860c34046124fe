"""The optimizers of a recipe with its own step, by name, and what a run needs of them together."""

from collections.abc import Mapping
from typing import Any, final

import torch
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from trueloop.engine.optimizer import build_optimizer
from trueloop.engine.own_groups import LABEL
from trueloop.errors import BadRecipe
from trueloop.parallel.strategy import Strategy
from trueloop.recipe.call import call_own
from trueloop.recipe.recipe import Recipe

__all__ = ["NamedOptimizers", "build_named_optimizers", "build_schedules"]

INITIAL = "initial_lr"  # torch's own name for it, in each group


@final
class NamedOptimizers:
    """Several optimizers in the form of one: for checkpoints, facts and metrics. It takes no steps."""

    def __init__(self, members: Mapping[str, torch.optim.Optimizer]) -> None:
        self.members = members
        self.defaults = {"fused": all(each.defaults.get("fused") for each in members.values())}
        for name, each in members.items() if len(members) > 1 else ():
            for number, group in enumerate(each.param_groups):  # as rows of metrics name its learning rate
                group.setdefault(LABEL, f"{name}/{number}" if len(each.param_groups) > 1 else name)
        for name, each in members.items() if len(members) > 1 else ():
            for number, group in enumerate(each.param_groups):
                group.setdefault("name", f"{name}/{number}" if len(each.param_groups) > 1 else name)  # rows: lr/NAME
        for group in self.param_groups:
            group.setdefault(INITIAL, group["lr"])

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for each in self.members.values() for group in each.param_groups]

    @property
    def state(self) -> dict[Any, Any]:
        return {parameter: state for each in self.members.values() for parameter, state in each.state.items()}

    def state_dict(self) -> dict[str, Any]:
        return {name: each.state_dict() for name, each in self.members.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, each in self.members.items():
            each.load_state_dict(state[name])

    def scale_rates(self, factor: float) -> None:
        """Every group gets its own initial rate, times a factor."""
        for group in self.param_groups:
            group["lr"] = group[INITIAL] * factor * group.get("lr_scale", 1.0)


def build_named_optimizers(recipe: Recipe, model: Any, device: torch.device, strategy: Strategy) -> NamedOptimizers:
    """Those of the recipe's `optimizers`; else the one that its other fields describe, called `optimizer`."""
    if recipe.optimizers is None:
        return NamedOptimizers({"optimizer": build_optimizer(recipe, model, device, strategy)})
    built = call_own("optimizers", "def optimizers(models)", recipe.optimizers, model)
    if isinstance(built, torch.optim.Optimizer):
        built = {"optimizer": built}
    if not isinstance(built, Mapping) or not built or not all(map(_is_optimizer, built.values())):
        raise BadRecipe(
            f"The recipe's optimizers returned {_described(built)}. Nothing was run: return optimizers by name, "
            'as in {"generator": torch.optim.Adam(models["generator"].parameters(), lr=2e-4)}.'
        )
    return NamedOptimizers(dict(built))


def build_schedules(recipe: Recipe, optimizers: NamedOptimizers) -> dict[str, LRScheduler]:
    """Those of the recipe's `schedules`, stepped once after each of its steps."""
    if recipe.schedules is None:
        return {}
    built = call_own("schedules", "def schedules(optimizers)", recipe.schedules, optimizers.members)
    if not isinstance(built, Mapping) or not all(isinstance(each, LRScheduler) for each in built.values()):
        raise BadRecipe(
            f"The recipe's schedules returned {_described(built)}. Nothing was run: return torch's schedulers by name, "
            'as in {"generator": CosineAnnealingLR(optimizers["generator"], T_max=1000)}.'
        )
    if any(isinstance(each, ReduceLROnPlateau) for each in built.values()):
        said = "The recipe's schedules have a ReduceLROnPlateau, whose step needs a metric"
        raise BadRecipe(f"{said}. Nothing was run: set schedule='plateau' instead of schedules.")
    return dict(built)


def _is_optimizer(value: Any) -> bool:
    return isinstance(value, torch.optim.Optimizer)


def _described(built: Any) -> str:
    if isinstance(built, Mapping):
        return f"a dict of {', '.join(type(each).__name__ for each in built.values()) or 'nothing'}"
    return "None" if built is None else f"a {type(built).__name__}"
