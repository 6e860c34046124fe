"""What a checkpoint contains, recognized by structure: weights, states of optimizers, schedulers and scalers, counters.

The results are names, numbers and shapes; no tensor is kept.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from trueloop.event import Contents, SavedCounter
from trueloop.torch_private.optimizers import SCHEDULER_KEYS

__all__ = ["Key", "SavedOptimizer", "contents_of", "path_of", "saved_optimizers", "settings_of", "weight_states"]
__all__ += ["weights_in"]

WIDTH: Final = 64  # Entries of a list or mapping that are searched: a checkpoint has few parts, a dataset has many
DEPTH: Final = 4  # Levels that are searched: {"state": {"models": [{...}]}}
NO_SETTINGS: Final = ("params", "param_names", "lr", "initial_lr", "foreach", "fused", "capturable", "differentiable")
"""Entries of a parameter group that say nothing of what the optimizer does, and the rate, which a schedule moves."""
Key = tuple[str, ...]


def path_of(file: object) -> str:
    """The absolute path behind what torch.save and torch.load are given; empty for what lies in memory."""
    name = file if isinstance(file, (str, os.PathLike)) else getattr(file, "name", "")
    return os.path.abspath(os.fsdecode(name)) if isinstance(name, (str, bytes, os.PathLike)) and name else ""


def contents_of(value: object) -> Contents:
    parts = list(_parts(value))
    numbers = value.items() if isinstance(value, Mapping) else ()
    counters = [(name, number) for name, number in numbers if isinstance(name, str) and type(number) is int]
    return Contents(
        modules=tuple((".".join(key), type(part).__name__) for key, part in parts if _is_whole_module(part)),
        weights=sum(isinstance(t, Tensor) for _, part in parts if _is_weights(part) for t in part.values()),
        optimizers=sum(_is_optimizer(part) and bool(part["state"]) for _, part in parts),
        schedules=sum(_is_schedule(part) and part["last_epoch"] > 0 for _, part in parts),
        scalers=sum(_is_scaler(part) for _, part in parts),
        random=any(_is_random_state(part) for _, part in parts),
        counters=tuple(SavedCounter(name, number) for name, number in counters),
    )


def weights_in(value: object) -> Iterator[Tensor]:
    """The tensors of the model state_dicts in a checkpoint."""
    for _, part in _parts(value):
        if _is_weights(part):
            yield from (tensor for tensor in part.values() if isinstance(tensor, Tensor))


def weight_states(value: object) -> Iterator[tuple[Key, dict[str, Tensor]]]:
    """The model state_dicts in a checkpoint, with where it stores them; () for a file that is one."""
    for key, part in _parts(value):
        if _is_weights(part):
            yield key, {name: tensor for name, tensor in part.items() if isinstance(tensor, Tensor)}


class SavedOptimizer(NamedTuple):
    """The state of an optimizer in a file."""

    key: Key
    shapes: tuple[tuple[int, ...] | None, ...]  # Largest tensor of each parameter, in the order of the groups
    kinds: frozenset[str]  # exp_avg, momentum_buffer ..
    settings: tuple[dict[str, Any], ...]  # The options of each group, without the learning rate
    rates: tuple[tuple[float, float], ...]  # The learning rate of each group, and its initial one
    steps: int


def saved_optimizers(value: object) -> Iterator[SavedOptimizer]:
    """Optimizer states that are not empty and have a name. Lists of them are skipped: frameworks write those."""
    for key, part in _parts(value):
        if _is_optimizer(part) and part["state"] and not any(word.isdigit() for word in key):
            yield _described(key, part)


def _described(key: Key, part: Mapping[str, Any]) -> SavedOptimizer:
    groups, state = part["param_groups"], part["state"]
    entries = [state.get(number) or {} for group in groups for number in group["params"]]
    tensors = [[t for t in entry.values() if isinstance(t, Tensor)] for entry in entries]
    largest = [max(of_entry, key=Tensor.numel, default=None) for of_entry in tensors]
    counted: list[Any] = [step for entry in entries if _is_number(step := entry.get("step"))]
    rates = [(float(group.get("lr", 0.0)), float(group.get("initial_lr", group.get("lr", 0.0)))) for group in groups]
    return SavedOptimizer(
        key=key,
        shapes=tuple(None if tensor is None else tuple(tensor.shape) for tensor in largest),
        kinds=frozenset(name for entry in entries for name, kept in entry.items() if kept is not None),
        settings=tuple(settings_of(group) for group in groups),
        rates=tuple(rates),
        steps=int(counted[0]) if counted else 0,
    )


def settings_of(group: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a parameter group that affect its steps."""
    simple = {name: value for name, value in group.items() if isinstance(value, (bool, int, float, str, tuple))}
    return {name: value for name, value in simple.items() if name not in NO_SETTINGS}


def _parts(value: object, key: Key = ()) -> Iterator[tuple[Key, Any]]:
    """The value and its parts, outermost first; states are not searched."""
    yield key, value
    if len(key) >= DEPTH or _is_optimizer(value) or _is_schedule(value) or _is_scaler(value) or _is_weights(value):
        return
    if isinstance(value, Mapping):
        items = [(str(name), item) for name, item in value.items() if isinstance(name, (str, int))]
    else:
        items = [(str(number), item) for number, item in enumerate(value)] if isinstance(value, (list, tuple)) else []
    for name, item in items[:WIDTH]:
        yield from _parts(item, (*key, name))


def _is_whole_module(value: object) -> bool:
    """A pickled module with weights, whose code is not in the file; a traced or scripted module includes its code."""
    if not isinstance(value, nn.Module) or isinstance(value, (torch.jit.ScriptModule, GraphModule)):
        return False
    return next(value.parameters(), None) is not None or next(value.buffers(), None) is not None


def _is_optimizer(value: object) -> bool:
    groups, state = (value.get("param_groups"), value.get("state")) if isinstance(value, Mapping) else (None, None)
    return isinstance(groups, list) and isinstance(state, Mapping)


def _is_schedule(value: object) -> bool:
    if not isinstance(value, Mapping) or not isinstance(value.get("last_epoch"), int):
        return False
    return any(name in value for name in ("base_lrs", "num_bad_epochs", *SCHEDULER_KEYS))


def _is_scaler(value: object) -> bool:
    return isinstance(value, Mapping) and {"scale", "growth_factor", "backoff_factor"} <= value.keys()


def _is_weights(value: object) -> bool:
    """Mostly names -> tensors."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        return False
    return 2 * sum(isinstance(tensor, Tensor) for tensor in value.values()) > len(value)


def _is_number(value: object) -> bool:
    scalar = isinstance(value, Tensor) and value.numel() == 1 and not value.is_meta
    return scalar or isinstance(value, (int, float))


def _is_random_state(value: object) -> bool:
    return isinstance(value, Tensor) and value.dtype is torch.uint8 and value.shape == torch.get_rng_state().shape
