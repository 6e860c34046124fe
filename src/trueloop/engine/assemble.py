"""From a recipe to its parts, built in an order that makes the same recipe give the same numbers."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch
from torch import nn

from trueloop.checkpoint.layout_choice import layout_for
from trueloop.checkpoint.saver import Saver
from trueloop.checkpoint.store import Memory, Store
from trueloop.checkpoint.weight_transfer import apply_transfer, plan_transfer, shapes_of
from trueloop.checkpoint.weights import read_weights
from trueloop.data.source import Splits
from trueloop.data.stream import Stream
from trueloop.engine.batches import Batches
from trueloop.engine.build_model import build_model
from trueloop.engine.carry import begin_carrying, check_carried_data
from trueloop.engine.compile_model import compile_blocks, compile_model
from trueloop.engine.ema import Ema
from trueloop.engine.loss_terms import LossTerms, form_of
from trueloop.engine.model_loss import ModelLoss
from trueloop.engine.named_optimizers import build_named_optimizers, build_schedules
from trueloop.engine.nonfinite_guard import Guard
from trueloop.engine.optimizer import build_optimizer
from trueloop.engine.parallel_selfcheck import check_same_outputs
from trueloop.engine.parts import Parts
from trueloop.engine.pipeline_check import check_stages
from trueloop.engine.precision import Precision
from trueloop.engine.preflight import machine_problems
from trueloop.engine.read_data import read_data
from trueloop.engine.recompute import blocks_of, recompute_blocks
from trueloop.engine.sample_order import mix_seed
from trueloop.engine.schedule import Schedule, check_schedule, peak_lr
from trueloop.engine.state import State
from trueloop.engine.stream_batches import StreamBatches, with_batch_of
from trueloop.engine.task import task_of
from trueloop.engine.torch_settings import pick_device
from trueloop.hook import Hook, Hooks
from trueloop.measure.randomness import seed_all
from trueloop.parallel.choose import choose
from trueloop.parallel.strategy import Strategy
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.recipe.validate import validate

__all__ = ["assemble", "start_from"]


def assemble(
    recipe: Recipe, request: DataRequest | None = None, store: Store | None = None, hooks: Hook | None = None
) -> Parts:
    """Trains nothing. Raises BadRecipe."""
    validate(recipe, machine_problems(recipe))
    device = pick_device(recipe.device)
    strategy = choose(recipe, device)
    peers = strategy.peers
    hooks = Hooks(*([hooks] if hooks else []), *recipe.hooks) if peers.first else Hooks()  # rank 0 reports for all
    splits = read_data(recipe, request)
    recipe = with_batch_of(splits.train, recipe, strategy.sharers.world)
    seed_all(recipe.seed)
    check_carried_data(recipe, peers.world, training=splits.train, validation=splits.valid, test=splits.test)
    model = _model(recipe, splits, strategy, device)
    begin_carrying(model)
    if recipe.start_from and not (store and store.names()):  # a run with its own checkpoints resumes from those
        hooks.noted(start_from(recipe, model))
    task = task_of(recipe, splits, model, device)
    if isinstance(task, ModelLoss):
        hooks.noted(task.note)
    form = form_of(task, model, splits, device, strategy) if recipe.step is None else None
    peers.share([*model.parameters(), *model.buffers()])  # initial weights may depend on more than the seed
    precision = Precision(recipe.precision, device)
    batches = _batches(splits, recipe, device, strategy)
    total = recipe.steps if recipe.steps is not None else (recipe.epochs or 1) * batches.steps_per_epoch
    recipe = fill_in(recipe, total)
    ema = _shard(recipe, strategy, model, batches)
    several = None if recipe.step is None else build_named_optimizers(recipe, model, device, strategy)
    one = build_optimizer(recipe, model, device, strategy) if several is None else several
    optimizer = cast(torch.optim.Optimizer, one)
    warmup = int(recipe.warmup)
    schedule = Schedule(recipe.schedule, peak_lr(recipe), total, warmup, recipe.final, recipe.step_size, recipe.gamma)
    check_schedule(schedule)
    store = store or Memory()
    layout = layout_for(strategy, store)
    seed_all(mix_seed(recipe.seed, strategy.sharers.rank + strategy.stage, 2))  # dropout: other samples, other numbers
    forward = model  # CUDA graphs compile their steps themselves
    if recipe.program != "cuda_graphs":
        forward = strategy.entrance(compile_model(recipe, model, strategy.in_parts), model)
    task.follow(State(), total)
    guard = Guard(optimizer, device, model, ask_each_step=precision.scaler is not None)
    return Parts(
        recipe=recipe,
        splits=splits,
        model=model,
        forward=forward,
        task=task,
        optimizer=optimizer,
        parameters=[each for group in optimizer.param_groups for each in group["params"] if strategy.keeps(each)],
        schedule=schedule,
        batches=batches,
        precision=precision,
        guard=guard,
        terms=LossTerms(strategy, guard, device, form),
        strategy=strategy,
        device=device,
        hooks=hooks,
        saver=Saver(store, recipe.keep, hooks.saved, layout.any_failed),
        layout=layout,
        total_steps=total,
        ema=ema,
        named_optimizers=several,
        schedules={} if several is None else build_schedules(recipe, several),
    )


def _model(recipe: Recipe, splits: Splits, strategy: Strategy, device: torch.device) -> nn.Module:
    model = build_model(recipe, splits.facts).to(device)
    if recipe.channels_last:
        # Convolutions with weights in this layout return activations in this layout.
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if recipe.activation_checkpointing and (strategy.stages > 1 or not strategy.in_parts):
        recompute_blocks(model)
    return model


def fill_in(recipe: Recipe, total_steps: int) -> Recipe:
    """The recipe with the values that follow from the length of the run."""
    warmup = recipe.warmup if isinstance(recipe.warmup, int) else int(recipe.warmup * total_steps)
    return replace(recipe, warmup=warmup)


def _batches(splits: Splits, recipe: Recipe, device: torch.device, strategy: Strategy) -> Batches | StreamBatches:
    in_step = strategy.in_step
    if recipe.step is not None:  # it gets the whole batch, and every process takes part in each of its updates
        recipe, in_step = replace(recipe, accumulate=1), strategy.peers.world > 1
    if isinstance(splits.train, Stream):
        return StreamBatches(splits.train, splits, recipe, device, strategy.sharers, in_step=in_step)
    return Batches(splits, recipe, device, strategy.sharers, in_step=in_step)


def _shard(recipe: Recipe, strategy: Strategy, model: nn.Module, batches: Batches | StreamBatches) -> Ema | None:
    """Puts the model into the form in which its strategy holds it; its moving average, if the recipe has one."""
    if not strategy.in_parts:
        return Ema(model, recipe.ema) if recipe.ema is not None else None
    check_stages(model, batches, strategy)
    copy = deepcopy(model) if recipe.ema is not None else None
    with check_same_outputs(model, batches, strategy):
        strategy.spread(model, compile_blocks(recipe, model))
        if recipe.activation_checkpointing and strategy.stages == 1:
            recompute_blocks(model)  # not before: layers to split are looked for in plain models
    if copy is None or recipe.ema is None:
        return None
    strategy.spread(copy, blocks_of(copy))
    return Ema(model, recipe.ema, copy, strategy.mine)


def start_from(recipe: Recipe, model: nn.Module) -> str:
    """Fill the model with the weights that the recipe names; a sentence on what was loaded."""
    weights, where = read_weights(Path(recipe.start_from))
    plan = plan_transfer(shapes_of(weights), shapes_of(model.state_dict()), recipe.start_map)
    apply_transfer(plan, weights, model)
    return f"start_from {where}: {plan.summary()}."
