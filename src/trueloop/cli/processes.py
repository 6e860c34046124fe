"""Starts a command as several processes on this machine: `trueloop launch` and `--nproc` of train and resume."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trueloop.errors import Misuse
from trueloop.parallel.launch import Machine, Plan, planned

if TYPE_CHECKING:
    from trueloop.recipe.recipe import Recipe

__all__ = ["batch_rule", "launch_here", "refuse_inside", "start", "this_machine"]


def launch_here(verb: str, nproc: str, words: list[str], recipe_for: Callable[[list[str]], Recipe]) -> int:
    """`trueloop train RECIPE --nproc 2`."""
    refuse_inside()
    command = ("-m", "trueloop", verb, *words)
    plan = planned(command, this_machine(), nproc=nproc, environment=os.environ)
    return start(plan, recipe_for(words))


def this_machine() -> Machine:
    with _silent_torch():
        import torch

    affinity = getattr(os, "sched_getaffinity", None)
    return Machine(len(affinity(0)) if affinity else os.cpu_count() or 1, torch.cuda.device_count())


@contextmanager
def _silent_torch() -> Iterator[None]:
    """Torch's C++ part reads its log level on import; about a missing node it prints two pages, the launcher one
    sentence. The processes that are launched keep their level."""
    if "TORCH_CPP_LOG_LEVEL" in os.environ or "torch" in sys.modules:
        yield
        return
    os.environ["TORCH_CPP_LOG_LEVEL"] = "FATAL"
    try:
        yield
    finally:
        del os.environ["TORCH_CPP_LOG_LEVEL"]


def start(plan: Plan, recipe: Recipe | None, *, dry: bool = False) -> int:
    """Start the processes of a plan. `dry`: only print it."""
    if dry:
        print(plan.described())
    else:
        print(plan.line(), file=sys.stderr)
    if recipe is not None and plan.world > 1:
        print(f"note: {batch_rule(recipe, plan.world)}", file=sys.stderr, flush=True)
    if dry:
        return 0
    from trueloop.parallel.elastic import execute

    return execute(plan, lambda sentence: print(f"trueloop: {sentence}", file=sys.stderr, flush=True))


def batch_rule(recipe: Recipe, world: int) -> str:
    """What more processes change: nothing; and how to use larger batches."""
    sharers = {"tp": 1, "pp": 1, "fsdp+tp": max(1, world // recipe.tensor_ranks)}.get(recipe.parallel, world)
    each, left = divmod(recipe.batch, sharers)
    share = f"{each}" if not left else f"{each} or {each + 1}"
    split = f"batch={recipe.batch} is split over all {world} processes, {share} samples each"
    if sharers == 1:
        split = f"batch={recipe.batch} is computed by all {world} processes together (parallel={recipe.parallel})"
    if recipe.lr_scaling != "none":
        scaled = f"lr scales with batch (lr_scaling={recipe.lr_scaling}), not with processes"
        return f"{split}: steps and losses are those of one process; {scaled}."
    adaptive = not (isinstance(recipe.optimizer, str) and recipe.optimizer.lower() in ("sgd", "nesterov"))
    root, linear = "the square root of k (adaptive optimizers)", "k, with warmup (linear rule, SGD)"
    rule = f"lr times {root if adaptive else linear}"
    flags = f"--set lr_scaling={'sqrt' if adaptive else 'linear'} --set reference_batch={recipe.batch}"
    why = f"{split}: learning rate, steps and losses are those of one process; nothing is scaled."
    return f"{why} For a batch k times as large the usual rule is {rule}: {flags} applies it."


def refuse_inside() -> None:
    if "RANK" in os.environ:
        advice = "leave --nproc out under torchrun or `trueloop launch`"
        raise Misuse(f"This is already one process of several (RANK is set). Nothing was run: {advice}.")
