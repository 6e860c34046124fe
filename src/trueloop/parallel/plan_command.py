"""The command that runs a row of a plan, and why `train` would refuse it. No torch."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from trueloop.parallel.plan import supported
from trueloop.recipe.recipe import Recipe
from trueloop.recipe.validate import find_problems
from trueloop.results.plan import ModelFacts, Row, Way

__all__ = ["command_for", "why_unsupported"]

PORT: Final = 29500  # torch's default


def _fields(way: Way, accumulate: int, recipe: Recipe) -> dict[str, Any]:
    """The fields of the recipe that must change."""
    wanted = {"activation_checkpointing": False, **way.settings, "accumulate": accumulate}
    if way.kind in ("none", "ddp") and recipe.parallel in ("auto", way.kind):
        del wanted["parallel"]
    return {name: value for name, value in wanted.items() if getattr(recipe, name) != value}


def why_unsupported(way: Way, accumulate: int, recipe: Recipe, facts: ModelFacts) -> str:
    """What `trueloop train` would answer; empty: it runs."""
    if why := supported(way):
        return why
    for part in way.kind.split("+"):
        if part in facts.problems:
            return facts.problems[part]
    return next(iter(find_problems(replace(recipe, **_fields(way, accumulate, recipe)))), "")


def command_for(
    row: Row, recipe: Recipe, words: Sequence[str], settings: Mapping[str, str], *, gpus: int, node: int
) -> str:
    """`words`: what follows `trueloop train`; `settings`: what --set was given."""
    fields = _fields(row.way, row.accumulate, recipe)
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
    options = [word for pair in {**settings, **texts}.items() for word in ("--set", "=".join(pair))]
    train = ["train", *words, *options]
    if row.way.kind == "none":
        return shlex.join(["trueloop", *train])
    if gpus <= node:
        return shlex.join(["trueloop", "train", *words, "--nproc", str(gpus), *options])
    nodes = [f"--nnodes {-(-gpus // node)} --nproc {node} --node-rank I --rendezvous NODE0:{PORT}"]
    return f"trueloop launch {' '.join(nodes)} -- {shlex.join(train)}"
