"""From a recipe to a loop: every part built in an order that makes the same recipe give the same numbers."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import torch
from torch import nn

from trueloop.checkpoint.form import form_of
from trueloop.checkpoint.saver import Saver
from trueloop.checkpoint.store import Memory, Store
from trueloop.checkpoint.surgery import operate, plan_surgery, shapes_of
from trueloop.checkpoint.weights import read_weights
from trueloop.data.source import Splits
from trueloop.engine.batches import Batches
from trueloop.engine.compile_model import compile_blocks, compile_model
from trueloop.engine.ema import Ema
from trueloop.engine.loop import Loop
from trueloop.engine.nonfinite_guard import Guard
from trueloop.engine.optimizer import build_optimizer
from trueloop.engine.parallel_selfcheck import check_same_outputs
from trueloop.engine.precision import Precision
from trueloop.engine.preflight import machine_problems
from trueloop.engine.programs.compiled_step import CompiledStep
from trueloop.engine.programs.cuda_graphs import Graphs
from trueloop.engine.recompute import blocks_of, recompute_blocks
from trueloop.engine.sample_order import mix_seed
from trueloop.engine.schedule import Schedule, peak_lr
from trueloop.engine.task import build_task
from trueloop.engine.torch_settings import pick_device
from trueloop.hook import Hook, Hooks
from trueloop.measure.randomness import seed_all
from trueloop.parallel.choose import choose
from trueloop.parallel.strategy import Strategy
from trueloop.recipe.model import build_model
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.recipe.validate import validate

__all__ = ["assemble", "start_from"]


def assemble(
    recipe: Recipe, request: DataRequest | None = None, store: Store | None = None, hooks: Hook | None = None
) -> Loop:
    """Nothing is trained yet."""
    validate(recipe, machine_problems(recipe))
    device = pick_device(recipe.device)
    strategy = choose(recipe, device)
    peers = strategy.peers
    hooks = Hooks(*([hooks] if hooks else []), *recipe.hooks) if peers.first else Hooks()  # one process speaks for all
    splits: Splits = recipe.data(request or DataRequest(seed=recipe.seed))
    seed_all(recipe.seed)
    model = build_model(recipe, splits.facts).to(device)
    if recipe.channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # kernels laid out so make every image between them so
    if recipe.activation_checkpointing and not strategy.in_parts:
        recompute_blocks(model)
    if recipe.start_from and not (store and store.names()):  # a run with checkpoints of its own goes on from those
        hooks.noted(start_from(recipe, model))
    task = build_task(recipe, splits.facts)
    peers.share([*model.parameters(), *model.buffers()])  # where a model's beginning is not only a matter of the seed
    precision = Precision(recipe.precision, device)
    batches = Batches(splits, recipe, device, strategy.sharers, in_step=strategy.in_step)
    ema = _spread(recipe, strategy, model, batches)
    optimizer = build_optimizer(recipe, model, device, strategy)
    total = recipe.steps if recipe.steps is not None else (recipe.epochs or 1) * batches.steps_per_epoch
    schedule = Schedule(
        recipe.schedule, peak_lr(recipe), total, recipe.warmup, recipe.final, recipe.step_size, recipe.gamma
    )
    store = store or Memory()
    form = form_of(strategy, store)
    seed_all(
        mix_seed(recipe.seed, strategy.sharers.rank, 2)
    )  # dropout: of its own on each process that has samples of its own
    loop = Loop(
        recipe=recipe,
        model=model,
        forward=model
        if recipe.program == "cuda_graphs"
        else strategy.entrance(compile_model(recipe, model, strategy.in_parts), model),
        splits=splits,
        task=task,
        optimizer=optimizer,
        schedule=schedule,
        batches=batches,
        precision=precision,
        guard=Guard(optimizer, device, model, ask_each_step=precision.scaler is not None),
        peers=peers,
        device=device,
        hooks=hooks,
        saver=Saver(store, recipe.keep, hooks.saved, form.any_failed),
        total_steps=total,
        strategy=strategy,
        form=form,
        ema=ema,
        parameters=[parameter for group in optimizer.param_groups for parameter in group["params"]],
    )
    if recipe.program == "cuda_graphs":
        loop.graphs = Graphs(loop)
    if recipe.program == "compiled_step":
        loop.whole = CompiledStep(loop)
    return loop


def _spread(recipe: Recipe, strategy: Strategy, model: nn.Module, batches: Batches) -> Ema | None:
    """The model as its strategy holds it; and its moving average, if the recipe has one."""
    if not strategy.in_parts:
        return Ema(model, recipe.ema) if recipe.ema is not None else None
    twin = deepcopy(model) if recipe.ema is not None else None
    with check_same_outputs(model, batches, strategy):
        strategy.spread(model, compile_blocks(recipe, model))
        if recipe.activation_checkpointing:
            recompute_blocks(
                model
            )  # not before: layers that are computed by several processes are looked for in plain models
    if twin is None or recipe.ema is None:
        return None
    strategy.spread(twin, blocks_of(twin))
    return Ema(model, recipe.ema, twin, strategy.mine)


def start_from(recipe: Recipe, model: nn.Module) -> str:
    """Fill the model with the weights that the recipe names; the account of it in words."""
    theirs, where = read_weights(Path(recipe.start_from))
    plan = plan_surgery(shapes_of(theirs), shapes_of(model.state_dict()), recipe.start_map)
    operate(plan, theirs, model)
    return f"start_from {where}: {plan.account()}."
