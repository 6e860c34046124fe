"""What a run was trained with, and whether it is still that when the run is resumed: fields, code and data."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trueloop.engine.hook_calls import gets_loop
from trueloop.errors import BadRecipe, NotARun
from trueloop.hook import Hook
from trueloop.recipe.recipe import Recipe, describe
from trueloop.usercode.definitions import definitions_of, definitions_that_differ

__all__ = ["Changes", "changes_since", "code_of"]

# Fields that may change when a run is resumed: its past stays valid, and its numbers do not depend on them
FREE: Final = {
    *("name", "hooks", "trackers", "keep", "workers", "log_every", "epochs", "steps", "device", "statistics_every"),
    *("digest_every", "parallel", "tensor_ranks", "tensor_plan", "save_every", "on_collapse", "accumulate", "prefetch"),
    *("threads", "pin", "where"),
}
NEVER: Final = {
    "seed": "the data would be split and ordered again",
    "task": "the metrics before and after could not be compared",
}
MOST_LINES: Final = 60  # of a diff, in a message


@dataclass
class Changes:
    """Between a run and the recipe that shall resume it."""

    recipe: dict[str, tuple[Any, Any]] = field(default_factory=dict)  # Field -> before, now
    code: dict[str, str] = field(default_factory=dict)  # Definition -> diff
    data: list[str] = field(default_factory=list)  # One sentence per split

    def __bool__(self) -> bool:
        return bool(self.recipe or self.code or self.data)

    def refuse(self, run: Path, *, accepted: bool) -> None:
        """Raises BadRecipe, unless every change was accepted and can be."""
        never = [f"{name}: {NEVER[name]}" for name in self.recipe if name in NEVER]
        if self and never and accepted:
            raise BadRecipe(f"{run} cannot be resumed with another {'; '.join(never)}. Nothing was run.")
        if self and not accepted:
            raise BadRecipe(self._sentence(run))

    def _sentence(self, run: Path) -> str:
        fields = "; ".join(f"{name}: {before!r}, now {now!r}" for name, (before, now) in self.recipe.items())
        said = [f"a different recipe ({fields})"] if self.recipe else []
        said += [f"different code ({', '.join(self.code)})"] if self.code else []
        said += [f"different data ({'; '.join(self.data)})"] if self.data else []
        cure = "start a new run"
        if not set(self.recipe) & set(NEVER):
            cure = f"undo that, start a new run, or accept and record it: `trueloop resume {run} --accept-changes`"
        lines = "".join(self.code.values()).splitlines()
        more = [f"... and {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
        first = f"{run} was trained with {' and '.join(said)}. Nothing was run: {cure}."
        return "\n".join([first, *lines[:MOST_LINES], *more])

    def record(self, step: int) -> dict[str, Any]:
        """For run.json."""
        fields = {name: list(values) for name, values in self.recipe.items()}
        return {"step": step, "time": time.time(), "recipe": fields, "code": self.code, "data": self.data}


def code_of(recipe: Recipe) -> dict[str, str]:
    """The user's code behind a recipe."""
    roots = {name: value for name, value in vars(recipe).items() if callable(value)}
    for number, hook in enumerate(recipe.hooks):
        if gets_loop(hook):
            roots |= {f"the class of hooks[{number}]": type(hook), f"hooks[{number}]": _hook_settings(hook)}
    for name, metric in recipe.metrics.items():
        if not callable(getattr(metric, "compute", None)) or isinstance(metric, type):
            roots[f"metrics[{name!r}]"] = metric
        else:
            roots |= {f"metrics[{name!r}]": _settings(metric), f"the class of metrics[{name!r}]": type(metric)}
    return definitions_of(roots)


def _hook_settings(hook: Hook) -> dict[str, Any]:
    """What it was created with; unknown where it has a state, which changes."""
    has_state = type(hook).state_dict is not Hook.state_dict
    plain = (bool, int, float, str, type(None))
    return {} if has_state else {name: value for name, value in sorted(vars(hook).items()) if isinstance(value, plain)}


def _settings(metric: Any) -> dict[str, Any]:
    """Of a torchmetrics object: its code is not the user's, but what it was created with is."""
    plain = (bool, int, float, str, type(None))
    settings = {name: value for name, value in sorted(vars(metric).items()) if name[:1] != "_"}
    return {"class": type(metric).__qualname__} | {k: v for k, v in settings.items() if isinstance(v, plain)}


def changes_since(about: Mapping[str, Any], recipe: Recipe) -> Changes:
    """Fields and code; data are compared when they have been read."""
    before, code, data = about.get("recipe") or {}, about.get("code"), about.get("data_fingerprint")
    tables = isinstance(before, dict) and isinstance(code or {}, dict) and isinstance(data or {}, dict)
    if not tables or not all(isinstance(text, str) for text in (code or {}).values()):
        said = "run.json is damaged: its recipe, code or data_fingerprint is not what a run writes"
        raise NotARun(f"{said}. Nothing was run; the checkpoints are untouched.")
    now = describe(recipe)
    fixed = (name for name in now if name in before and name not in FREE)
    fields = {name: (before[name], now[name]) for name in fixed if before[name] != now[name]}
    return Changes(fields, {} if code is None else definitions_that_differ(code, code_of(recipe)))
