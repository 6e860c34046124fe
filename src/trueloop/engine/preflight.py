"""Before the first step: everything that can be checked without training.

`machine_problems` needs only the recipe and runs before data are read. `check_before_training` needs the parts: it runs
the first batches through the model in eval mode, without gradients, and restores random states and buffers, so it does
not change the run. (Plain attributes that a model or a dataset sets stay.)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from trueloop.data.source import Batch, Source, moved
from trueloop.data.stream import as_batch
from trueloop.data.tensors import Tensors
from trueloop.engine.batches import Batches
from trueloop.engine.call_model import call_model
from trueloop.engine.carry import without_carried_state
from trueloop.engine.evaluate import evaluating
from trueloop.engine.layers import remove_after
from trueloop.engine.loader_stream import LoaderStream
from trueloop.engine.metrics import check_metrics
from trueloop.engine.optimizer import optimizer_problems
from trueloop.engine.own_evaluation import evaluates_without_data
from trueloop.engine.parts import Parts
from trueloop.engine.sample_order import micro_batch_sizes
from trueloop.engine.torch_settings import pick_device
from trueloop.errors import BadData, BadRecipe, TrueloopError
from trueloop.measure.model import restored_buffers
from trueloop.recipe.recipe import Recipe
from trueloop.torch_private.modules import BatchNorm

__all__ = ["check_before_training", "machine_problems"]

Entered = list[tuple[str, nn.Module, Any]]  # Name, module and inputs of calls


# -- the recipe and this machine --


def machine_problems(recipe: Recipe) -> list[str]:
    """What the recipe asks of this machine or of torch and cannot have, each as a clause for `validate`."""
    device = _device_mistakes(str(recipe.device), str(recipe.precision))
    return [*device, *_program_mistakes(recipe), *optimizer_problems(recipe)]


def _program_mistakes(recipe: Recipe) -> Iterator[str]:
    if recipe.program == "cuda_graphs" and recipe.device == "auto" and pick_device("auto").type != "cuda":
        found = pick_device("auto").type
        yield f"program=cuda_graphs needs a CUDA device, and device=auto finds {found} here: set program=eager"


def _device_mistakes(device: str, precision: str) -> Iterator[str]:
    kind, _, number = device.partition(":")
    if kind == "cuda" and not torch.cuda.is_available():
        built = "" if torch.version.cuda else " (this torch was built without it)"
        yield f"device={device} needs CUDA, and this machine has none{built}: give device=auto, or cpu"
    elif kind == "cuda" and number.isdecimal() and int(number) >= torch.cuda.device_count():
        yield f"device={device} is not there: this machine has {torch.cuda.device_count()}, numbered from cuda:0"
    elif kind == "mps" and not torch.backends.mps.is_available():
        yield "device=mps needs an Apple GPU, and this machine has none: give device=auto, or cpu"
    elif device == "auto":
        found = pick_device("auto").type
        if precision == "fp16" and found == "cpu":
            yield "precision=fp16 needs a GPU, and device=auto finds only the CPU here: give precision=bf16, or fp32"
        if precision == "tf32" and found != "cuda":
            yield f"precision=tf32 needs a CUDA device, and device=auto finds {found} here: give precision=fp32"


# -- the loop --


def check_before_training(parts: Parts) -> None:
    """Raises BadRecipe, or BadData of the task's checks, if the run could not be trained to its end."""
    _refuse_lengths(parts)
    _refuse_what_watches_nothing(parts)
    _refuse_what_data_cannot_give(parts)
    if parts.recipe.step is not None:
        _refuse_unevaluated(parts)
        return  # its first step shows what it takes
    model = parts.model
    with evaluating(model), restored_buffers(model), _values_per_channel(model) as values:
        output = None
        for number in range(min(2, parts.batches.steps_per_epoch)):
            batch = parts.batches.batch_at(0, number)
            if batch is not None:  # a process may have no share of a small batch
                output = _answer(parts, batch, f"Batch {number} of the training data")
        _refuse_targets_anywhere(parts, output)
    parts.strategy.settle(parts.model)
    _refuse_lone_sample(parts, values)


def _refuse_lengths(parts: Parts) -> None:
    recipe, batches = parts.recipe, parts.batches
    if batches.steps_per_epoch == 0:
        raise BadRecipe(
            f"There are {batches.samples:,} samples and a batch holds {recipe.batch:,}: with drop_last=True no batch "
            f"is left. Nothing was trained: set drop_last=False, or a batch of at most {batches.samples:,}."
        )
    if recipe.warmup >= parts.total_steps:
        raise BadRecipe(
            f"warmup={recipe.warmup:,} is as long as the run: {parts.total_steps:,} steps, {batches.steps_per_epoch:,} "
            "per epoch. Nothing was trained: set a smaller warmup, a share such as warmup=0.05, or more epochs."
        )


def _refuse_what_watches_nothing(parts: Parts) -> None:
    recipe, valid = parts.recipe, parts.splits.valid
    plateau, watched = recipe.schedule == "plateau", recipe.patience is not None
    asked = {"patience": watched, "schedule=plateau": plateau, "metric": bool(recipe.metric)}
    watching = " and ".join(name for name, is_asked in asked.items() if is_asked)
    if valid is None and watching and not evaluates_without_data(recipe):
        said = f"No validation data, but the recipe sets {watching}"
        raise BadRecipe(f"{said}. Nothing was trained: return Splits(valid=...) in `data`.")


def _refuse_what_data_cannot_give(parts: Parts) -> None:
    recipe, train = parts.recipe, parts.splits.train
    if recipe.balanced and train.labels() is None:
        raise BadRecipe(
            "balanced=True draws every class equally often, and this dataset does not list its classes. "
            "Nothing was trained: give Dataset(..., labels=...), or balanced=False."
        )
    if recipe.where == "resident" and parts.batches.resident is None:
        raise BadRecipe(
            f"where=resident needs samples in memory, and {type(train).__name__} reads them as needed. "
            "Nothing was trained: set where=auto."
        )


def _refuse_unevaluated(parts: Parts) -> None:
    if isinstance(parts.model, nn.ModuleDict) and parts.splits.valid is not None and parts.recipe.evaluate is None:
        raise BadRecipe(
            f"The recipe has validation data and {len(parts.model)} models by name. Nothing was trained: give "
            "evaluate=lambda models, batch: {...}, which returns means over a batch, or leave the validation data out."
        )


def _refuse_targets_anywhere(parts: Parts, output: Any) -> None:
    """Check all targets in memory, and the first batch of the validation and test data."""
    splits = parts.splits
    others = (("validation", splits.valid), ("test", splits.test))
    for name, source in (("training", splits.train), *others):
        if isinstance(source, Tensors) and output is not None:
            parts.task.check_all(source.targets, output, f"The {name} data")
    for name, source in others:
        if source is not None:
            with without_carried_state(parts.model):
                _answer(parts, _first_of(parts, source), f"The first batch of the {name} data")


def _first_of(parts: Parts, source: Source) -> Batch:
    if isinstance(source, LoaderStream):
        batches = source.evaluation_pass()
        given = next(batches, None)
        batches.close()
        if given is None:
            raise BadData("The loader of the evaluation data gave no batch. Nothing was trained: check its dataset.")
        fetched = as_batch(given, "The loader of the evaluation data")
    else:
        fetched = source.fetch(torch.arange(min(parts.recipe.batch, len(source))))
    inputs, targets = moved(tuple(fetched), parts.device)
    return Batch(inputs if parts.splits.prepare is None else parts.splits.prepare(inputs), targets)


def _answer(parts: Parts, batch: Batch, at: str) -> Any:
    """The output of the model for a batch, checked against its targets."""
    entered: Entered = []
    with _watched(parts.model, entered), parts.precision.autocast():
        try:
            output = call_model(parts.model, batch.inputs)
        except (TrueloopError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            raise BadRecipe(_cannot_take(parts.model, batch, at, entered, error)) from error
        parts.task.check_batch(output, batch, at)
    names = check_metrics(parts.recipe.metrics, output, batch, at, parts.device)
    if parts.metric not in names and any(parts.metric.startswith(f"{each}_") for each in parts.recipe.metrics):
        said = f"metric={parts.metric} is not measured"
        raise BadRecipe(f"{said}. Nothing was trained: metrics measure {', '.join(sorted(names))}.")
    return output


def _cannot_take(model: nn.Module, batch: Batch, at: str, entered: Entered, error: Exception) -> str:
    said = (str(error).splitlines() or [""])[0].rstrip(".")
    inside = [f" in its layer {name} ({layer}), which was given {_shape(given)}" for name, layer, given in entered[1:]]
    where = inside[-1] if inside else ""
    return (
        f"{at} has inputs {_shape(batch.inputs)}, and {type(model).__name__} fails on them{where}: "
        f"{type(error).__name__}: {said}. Nothing was trained."
    )


def _shape(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{list(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shape(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return _shape(value[0]) if len(value) == 1 else "(" + ", ".join(_shape(item) for item in value) + ")"
    return type(value).__name__


# -- one sample and BatchNorm --


def _refuse_lone_sample(parts: Parts, values: dict[str, int]) -> None:
    """BatchNorm needs more than one value per channel: torch would stop in the middle of the run."""
    recipe, batches = parts.recipe, parts.batches
    alone = [name for name, per_sample in values.items() if per_sample == 1]
    last = 0 if recipe.drop_last else batches.samples % recipe.batch
    if callable(recipe.order) and isinstance(batches, Batches):
        last = min(len(batches.order(0)[number]) for number in range(batches.steps_per_epoch))
    if not alone:
        return
    if batches.samples >= recipe.batch and 1 in _sizes(parts, recipe.batch):
        raise BadRecipe(
            f"A batch of {recipe.batch} over {parts.strategy.sharers.world} process(es) and "
            f"accumulate={recipe.accumulate} leaves micro-batches of one sample, and BatchNorm ({alone[0]}) needs two. "
            "Nothing was trained: set a smaller accumulate, or a larger batch."
        )
    if last and 1 in _sizes(parts, last):
        raise BadRecipe(
            f"{batches.samples:,} samples in batches of {recipe.batch} leave a batch of {last}, with one sample "
            f"for BatchNorm ({alone[0]}), which needs two. Nothing was trained: --set drop_last=true, or another batch."
        )


def _sizes(parts: Parts, samples: int) -> list[int]:
    """Sizes of the micro-batches of a step, over all processes."""
    world = parts.strategy.sharers.world
    shares = [samples // world + (rank < samples % world) for rank in range(world)]
    if parts.recipe.accumulate == 1:
        return shares
    accumulate, batch = parts.recipe.accumulate, parts.recipe.batch
    return [size for share in shares if share for size in micro_batch_sizes(share, world, accumulate, batch)]


@contextmanager
def _values_per_channel(model: nn.Module) -> Iterator[dict[str, int]]:
    """Filled while the model runs: how many values per channel each BatchNorm gets from one sample."""
    values: dict[str, int] = {}
    names = {module: name for name, module in model.named_modules() if isinstance(module, BatchNorm)}

    def look(module: nn.Module, given: tuple[Any, ...]) -> None:
        if isinstance(module, BatchNorm) and given and isinstance(given[0], Tensor) and given[0].dim() >= 2:
            values[names[module]] = given[0][0, 0].numel()

    looked = (module for module in names if not isinstance(module, nn.SyncBatchNorm))
    with remove_after(module.register_forward_pre_hook(look) for module in looked):
        yield values


@contextmanager
def _watched(model: nn.Module, entered: Entered) -> Iterator[None]:
    """Keeps in `entered` the layers that were called and have not answered: when the model fails, the last is where."""
    names = {module: name for name, module in model.named_modules()}

    def enter(module: nn.Module, given: Any) -> None:
        entered.append((names[module], module, given))

    def leave(module: nn.Module, given: Any, output: Any) -> None:
        entered.pop()

    handles = [module.register_forward_pre_hook(enter) for module in names]
    with remove_after([*handles, *(module.register_forward_hook(leave) for module in names)]):
        yield
