"""Another batch size in the middle of a run (`resume --set batch=N --accept-changes`).

The order of an epoch's samples does not depend on the batch size, so a run continues at the next sample. Where that is
not the beginning of a batch of the new size, the rest of the epoch is left out and the next epoch begins: a sample is
never seen twice in an epoch. The run keeps its number of epochs; its steps count on.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trueloop.engine.sample_order import steps_per_epoch
from trueloop.engine.state import State
from trueloop.recipe.recipe import Recipe

__all__ = ["convert_position", "with_length_in_steps"]


def _position(epoch: int, batch: int, before: int, now: int, steps: int) -> tuple[int, int]:
    """(epoch, next batch) for batches of the new size. `steps`: of an epoch, with that size."""
    if before == now:
        return epoch, batch
    number, rest = divmod(batch * before, now)
    return (epoch, number) if not rest and number < steps else (epoch + 1, 0)


def convert_position(state: State, about: Mapping[str, Any], recipe: Recipe, steps: int) -> str:
    """In place, after a checkpoint was read; `about`: what it states. Returns a note; empty: nothing has changed."""
    before = (about.get("recipe") or {}).get("batch", recipe.batch)
    if before == recipe.batch:
        return ""
    epoch, batch = state.epoch, state.batch
    state.epoch, state.batch = _position(epoch, batch, before, recipe.batch, steps)
    state.avoided = []  # batches of the old size
    seen = batch * before
    left_out = f"the rest of epoch {epoch} after {seen:,} samples is left out"
    where = f"epoch {epoch} continues at sample {seen:,}" if state.epoch == epoch else left_out
    return f"batch {before} before step {state.step:,}, {recipe.batch} from there on: {where}."


def with_length_in_steps(recipe: Recipe, about: Mapping[str, Any], samples: int) -> Recipe:
    """The recipe of a run whose batch size changes, or has changed: the rest of its epochs, counted in steps. `about`:
    what its newest checkpoint states."""
    saved = about.get("recipe") or {}
    if recipe.epochs is None or not samples or not {"step", "epoch", "batch"} <= about.keys() or "batch" not in saved:
        return recipe
    before = saved["batch"]
    if before == recipe.batch:
        taken = about["epoch"] * steps_per_epoch(samples, before, recipe.drop_last) + about["batch"]
        if about["step"] == taken:
            return recipe
    steps = steps_per_epoch(samples, recipe.batch, recipe.drop_last)
    epoch, batch = _position(about["epoch"], about["batch"], before, recipe.batch, steps)
    rest = max(0, recipe.epochs * steps - (epoch * steps + batch))
    return replace(recipe, epochs=None, steps=about["step"] + rest)
