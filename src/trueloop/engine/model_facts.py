"""What a plan must know of a recipe's model: its parameters, its blocks, what its forward keeps for the backward, and
its FLOPs.

One forward and one backward of two samples, and of four, on tensors that have shapes and no memory: what grows between
them belongs to the samples. No values are computed, so a model of any size takes seconds. A model that looks at its
numbers is run for real instead, on the CPU, and the facts say so. Attention is taken for what a GPU does: one kernel,
which keeps queries, keys, values, its result and one number for each row.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, final

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import flop_registry

from trueloop.data.source import Batch, Facts, Source, Splits, tensors_in
from trueloop.engine.build_model import build_model
from trueloop.engine.call_model import call_model
from trueloop.engine.optimizer import build_optimizer
from trueloop.engine.pipeline_check import refuse_no_chain
from trueloop.engine.recompute import blocks_of
from trueloop.engine.task import build_task
from trueloop.errors import BadRecipe, TrueloopError
from trueloop.kernels.linear_cross_entropy import LARGEST_CUDA
from trueloop.parallel.tensor import plan_tensors
from trueloop.recipe.recipe import Recipe
from trueloop.results.plan import Kept, ModelFacts
from trueloop.torch_private.dispatch import (
    FakeTensorMode,
    TorchDispatchMode,
    fake_mode,
    operator_packet,
    pytree,
    unset_fake_temporarily,
)
from trueloop.torch_private.tensors import storage_id

__all__ = ["Blank", "blank_splits", "facts_of", "states_per_number"]

FEW, MORE = 2, 4  # Samples of the two looks: with one alone a batch norm has nothing to norm
_AUTOCAST: Final = {"bf16": torch.bfloat16, "fp16": torch.float16}
_SQUARE: Final = 64  # side of the matrix an optimizer's state is taken from: what it keeps once a row does not count


# -- data that are not here --


@final
class Blank(Source):
    """Samples of a shape, all zeros: enough where only shapes count."""

    def __init__(self, shape: tuple[int, ...], kind: torch.dtype, task: str, outputs: int) -> None:
        self.shape, self.kind, self.task, self.outputs = shape, kind, task, outputs

    def __len__(self) -> int:
        return 1 << 20

    def fetch(self, numbers: Tensor) -> Batch:
        count = len(numbers)
        inputs = torch.zeros((count, *self.shape), dtype=self.kind)
        shapes = {"language": (count, *self.shape), "multiclass": (count,), "binary": (count,)}
        kind = torch.int64 if self.task in ("language", "multiclass") else None
        return Batch(inputs, torch.zeros(shapes.get(self.task, (count, max(1, self.outputs))), dtype=kind))


def blank_splits(task: str, shape: tuple[int, ...], kind: torch.dtype, outputs: int) -> Splits:
    """Data of which only the shape is known."""
    classes = tuple(map(str, range(outputs))) if task == "multiclass" else ()
    facts = Facts(inputs=shape, classes=classes, vocabulary=outputs if task == "language" else 0, outputs=outputs)
    return Splits(Blank(shape, kind, task, outputs), facts=facts)


# -- the facts --


def facts_of(recipe: Recipe, splits: Splits) -> ModelFacts:
    """What the model raises on real samples too is the user's."""
    few, more = (_samples(splits, count) for count in (FEW, MORE))
    counted, why = f"counted with {FEW} and {MORE} samples", ""
    # most models take the first; one that computes with tensors when it is built takes the second
    for build in (_of_shapes, build_model):
        mode = fake_mode()
        try:
            with mode, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about tensors without memory, which the training will not have
                model = build(recipe, splits.facts)
                batches = [_without_memory(batch, mode) for batch in (few, more)]
                looks = [_look(recipe, model, splits.facts, batch, fused=True) for batch in batches]
                problems = _problems(recipe, model, batches[0])
            return _facts(recipe, model, looks[0], looks[1], problems, f"{counted}, on tensors without memory")
        except TrueloopError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, real numbers decide; what they raise is raised
            why = type(error).__name__
    model = build_model(recipe, splits.facts)
    looks = [_look(recipe, model, splits.facts, batch, fused=False) for batch in (few, more)]
    problems = _problems(recipe, model, few)
    how = f"{counted} on the CPU: tensors without memory end in {why}"
    return _facts(recipe, model, looks[0], looks[1], problems, how)


def _of_shapes(recipe: Recipe, facts: Facts) -> nn.Module:
    """Built on the device that holds nothing, where layers are copied and filled at no cost; then put on the CPU."""
    with unset_fake_temporarily(), torch.device("meta"):
        model = build_model(recipe, facts)
    made: dict[int, Tensor] = {}
    for module in model.modules():
        for name, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
            if id(tensor) not in made:
                empty = torch.empty(tensor.shape, dtype=tensor.dtype)
                is_parameter = isinstance(tensor, nn.Parameter)
                made[id(tensor)] = nn.Parameter(empty, tensor.requires_grad) if is_parameter else empty
            setattr(module, name, made[id(tensor)])  # one that is tied stays tied
    return model


def _samples(splits: Splits, count: int) -> Batch:
    batch = splits.train.fetch(torch.arange(count) % len(splits.train))
    return batch if splits.prepare is None else Batch(splits.prepare(batch.inputs), batch.targets)


def _without_memory(batch: Batch, mode: FakeTensorMode) -> Batch:
    inputs, targets = pytree.tree_map_only(Tensor, mode.from_tensor, (batch.inputs, batch.targets))
    return Batch(inputs, targets)


def _facts(
    recipe: Recipe, model: nn.Module, few: _Look, more: _Look, problems: Mapping[str, str], how: str
) -> ModelFacts:
    parameters = list(model.parameters())
    learning = [each for each in parameters if each.requires_grad]
    blocks = [{id(each): each for each in block.parameters()} for block in blocks_of(model)]
    inside = {key: each for block in blocks for key, each in block.items()}
    per_number, state_how = states_per_number(recipe)
    average = 0 if recipe.ema is None else _bytes(parameters)
    return ModelFacts(
        name=type(model).__name__,
        numbers=sum(each.numel() for each in parameters),
        learning=sum(each.numel() for each in learning),
        parameter_bytes=_bytes(parameters),
        gradient_bytes=_bytes(learning),
        state_bytes=round(per_number * _bytes(learning)) + average,
        buffer_bytes=_bytes(list(model.buffers())),
        blocks=len(blocks),
        largest_block=max((sum(each.numel() for each in block.values()) for block in blocks), default=0),
        outside=sum(each.numel() for each in parameters if id(each) not in inside),
        splittable=sum(each.numel() for each in inside.values() if each.dim() >= 2),
        stream=_slope(few.stream, more.stream) / len(blocks) if blocks else 0.0,
        kept=_kept(few, more),
        flops=_slope(few.flops, more.flops),
        flops_forward=_slope(few.flops_forward, more.flops_forward),
        flops_blocks=_slope(few.flops_blocks, more.flops_blocks),
        how=how,
        state_how=state_how + ("; and a moving average of the weights" if average else ""),
        positions=more.positions,
        problems=problems,
    )


def _problems(recipe: Recipe, model: nn.Module, batch: Batch) -> dict[str, str]:
    """Ways that `train` would refuse for this model, each with what it would say."""
    blocks = len(blocks_of(model))
    refusals: dict[str, Callable[[], object]] = {
        "tp": lambda: plan_tensors(model, 2, recipe.tensor_plan),
        "pp": lambda: refuse_no_chain(model, batch, blocks, values=False) if blocks > 1 else None,
    }
    problems = {}
    for way, refuse in refusals.items():
        try:
            refuse()
        except BadRecipe as refusal:
            problems[way] = str(refusal).partition(" Nothing was run")[0].rstrip(".")
    return problems


def _kept(few: _Look, more: _Look) -> Kept:
    total = _slope(sum(few.bytes.values()), sum(more.bytes.values()))
    blocks = [key for key in more.bytes if key is not None]
    each = {block: _slope(few.bytes.get(block, 0), more.bytes[block]) for block in blocks}
    return Kept(
        per_sample=total,
        fixed=max(0.0, sum(few.bytes.values()) - FEW * total),
        in_blocks=sum(each.values()),
        largest_block=max(each.values(), default=0.0),
        block_inputs=_slope(few.inputs, more.inputs),
        split=_slope(few.split, more.split),
        largest_tensor=_slope(few.largest, more.largest),
        scores=_slope(few.scores, more.scores),
        scores_most=float(LARGEST_CUDA) if more.scores else 0.0,
        scores_fixed=float(more.table),
    )


def _slope(few: float, more: float) -> float:
    return max(0.0, (more - few) / (MORE - FEW))


def _bytes(tensors: list[Any]) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)


def states_per_number(recipe: Recipe) -> tuple[float, str]:
    """Bytes of the recipe's optimizer for each byte of weights, seen on a small matrix after one step."""
    matrix = nn.Linear(_SQUARE, _SQUARE, bias=False)
    optimizer = build_optimizer(recipe, matrix, torch.device("cpu"))
    matrix.weight.grad = torch.ones_like(matrix.weight)
    optimizer.step()
    states = [value for value in optimizer.state[matrix.weight].values() if isinstance(value, Tensor) and value.dim()]
    share = _bytes(states) / _bytes([matrix.weight])
    name = type(optimizer).__name__
    return share, f"{name} keeps {share:.3g} values per trained parameter, measured after a step on a small matrix"


# -- one look --


@dataclass(slots=True)
class _Look:
    """What one forward and backward showed, added up over the batch."""

    own: set[int] = field(default_factory=set)  # Storages that are there anyway: parameters, buffers, the batch
    seen: set[int] = field(default_factory=set)
    bytes: dict[int | None, int] = field(default_factory=dict)  # Kept for the backward, by block; None: in none
    split: int = 0
    inputs: int = 0
    stream: int = 0
    positions: int = 0
    largest: int = 0
    scores: int = 0
    table: int = 0
    flops: int = 0
    flops_forward: int = 0
    flops_blocks: int = 0
    block: int | None = None  # Which one computes now
    entered: tuple[int, ...] = ()  # The shape of what was given to it
    forward: bool = True

    def keep(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if (key := storage_id(storage)) not in self.own and key not in self.seen:
            self.seen.add(key)
            self.bytes[self.block] = self.bytes.get(self.block, 0) + storage.nbytes()
            if self.block is not None and not self._is_stream(tensor):
                self.split += storage.nbytes()
        return tensor

    def _is_stream(self, tensor: Tensor) -> bool:
        """As wide as what enters the block: norms and sums between layers, which every GPU of a split layer holds."""
        wide = bool(self.entered) and tensor.dim() > 1 and tensor.shape[-1] == self.entered[-1]
        return tensor.dim() < 2 or (wide and tensor.numel() == math.prod(self.entered))

    def compute(self, flops: int) -> None:
        self.flops += flops
        self.flops_forward += flops * self.forward
        self.flops_blocks += flops * (self.forward and self.block is not None)

    def enter(self, block: int, _: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.block = block
        inputs = tensors_in([*given, *named.values()])
        first = next((each for each in inputs if each.is_floating_point()), None)
        if first is not None:
            self.entered = tuple(first.shape)
            self.positions = max(self.positions, first.shape[1] if first.dim() == 3 else 0)
            self.stream += first.numel()
            self.inputs += first.numel() * first.element_size()

    def leave(self, *_: Any) -> None:
        self.block = None


def _look(recipe: Recipe, model: nn.Module, facts: Facts, batch: Batch, *, fused: bool) -> _Look:
    if not any(each.requires_grad for each in model.parameters()):
        raise BadRecipe(
            f"{type(model).__name__} has no trainable parameter: there is nothing to plan. Nothing was run."
        )
    look, task = _Look(), build_task(recipe, facts)
    there = [*model.parameters(), *model.buffers(), *tensors_in(batch.inputs), *tensors_in(batch.targets)]
    look.own = {storage_id(each.untyped_storage()) for each in there}
    model.train()
    model.zero_grad()
    with ExitStack() as stack:
        for number, block in enumerate(blocks_of(model)):
            entering = partial(look.enter, number)
            stack.callback(block.register_forward_pre_hook(entering, with_kwargs=True).remove)
            stack.callback(block.register_forward_hook(look.leave).remove)
        stack.enter_context(_Operations(look))
        if fused:
            stack.enter_context(_Attention(look))
        with saved_tensors_hooks(look.keep, lambda tensor: tensor), _autocast(recipe):
            output = call_model(model, batch.inputs)
            own = getattr(output, "loss", None) if recipe.loss is None else None  # a model of Hugging Face computes it
            loss = task.loss(output, batch).total if own is None else own
        look.forward = False
        loss.backward()
    return look


def _autocast(recipe: Recipe) -> AbstractContextManager[Any]:
    kind = _AUTOCAST.get(recipe.precision)
    return nullcontext() if kind is None else torch.autocast("cpu", kind)


@final
class _Operations(TorchDispatchMode):
    """Sees every operation: its FLOPs, and how large what it makes is."""

    def __init__(self, look: _Look) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.look = look

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        packet = operator_packet(func)
        if str(packet) == "trueloop.linear_cross_entropy":
            self._loss(args, out)
        elif (formula := flop_registry.get(packet)) is not None:
            self.look.compute(int(formula(*args, **(kwargs or {}), out_val=out)))
        if self.look.forward:
            storages = [each.untyped_storage() for each in tensors_in(out)]
            sizes = [each.nbytes() for each in storages if storage_id(each) not in self.look.own]
            self.look.largest = max(self.look.largest, *sizes, 0)
        return out

    def _loss(self, args: tuple[Any, ...], out: tuple[Tensor, ...]) -> None:
        """Its products and its room are out of sight; the gradient of its weight is not an activation."""
        hidden, weight, precision = args[0], args[1], args[4]
        self.look.own.add(storage_id(out[2].untyped_storage()))
        self.look.scores += len(hidden) * len(weight) * precision.itemsize
        self.look.table = weight.numel() * precision.itemsize if precision != weight.dtype else 0
        self.look.compute(2 * hidden.numel() * len(weight) * (1 + args[5] + args[6]))


@final
class _Attention(TorchFunctionMode):
    """Puts one kernel in the place of attention."""

    def __init__(self, look: _Look) -> None:
        super().__init__()
        self.look = look

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        named = dict(kwargs or {})
        if func is not torch.nn.functional.scaled_dot_product_attention:
            return func(*args, **named)
        tensors = dict(zip(("query", "key", "value"), args, strict=False)) | named
        inputs = [tensors[name] for name in ("query", "key", "value")]
        return _OneKernel.apply(self.look, *inputs)  # type: ignore[no-untyped-call]


@final
class _OneKernel(torch.autograd.Function):
    """Attention by its shapes alone."""

    @staticmethod
    def forward(ctx: Any, look: _Look, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if torch.is_autocast_enabled("cpu"):
            query, key, value = (each.to(torch.get_autocast_dtype("cpu")) for each in (query, key, value))
        *lead, rows, width = query.shape
        # As the kernels lay it out: the heads of a row side by side, so that joining them copies nothing.
        shape = (*lead[:-1], rows, *lead[-1:], value.shape[-1])
        out = query.new_empty(shape).transpose(-3, -2) if lead else query.new_empty(shape)
        sums = query.new_empty((*lead, rows), dtype=torch.float32)
        ctx.look, ctx.flops = look, 2 * sums.numel() * key.shape[-2] * (width + value.shape[-1])
        look.compute(ctx.flops)
        ctx.save_for_backward(query, key, value, out, sums)
        return out

    @staticmethod
    def backward(ctx: Any, *_: Any) -> tuple[None, Tensor, Tensor, Tensor]:
        query, key, value, _, _ = ctx.saved_tensors
        ctx.look.compute(ctx.flops * 5 // 2)  # scores anew, and four products more
        return None, torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
