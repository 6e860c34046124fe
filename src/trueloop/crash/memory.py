"""The memory of a device, or of the machine, ran out: how much was asked for, and what holds the rest."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.optim import Optimizer

from trueloop.crash.explanation import Explanation, described, size, spot
from trueloop.crash.scene import Scene
from trueloop.results.check import counted
from trueloop.torch_private.modules import CALL_FRAMES
from trueloop.torch_private.tensors import storage_id

__all__ = ["explain"]

_CUDA: Final = re.compile(
    r"Tried to allocate ([\d.]+) (\w+)\..*?GPU (\d+) has a total capacity of ([\d.]+ \w+)(?:.*? of which ([\d.]+ \w+) is free)?",
    re.DOTALL,
)
"""A GPU's allocator: the request, the device, its size, what was free."""
_CPU: Final = re.compile(r"(?:you tried to allocate|can't allocate memory: you tried to allocate) (\d+) bytes")
"""torch's allocator for the CPU."""
_NUMPY: Final = re.compile(r"Unable to allocate ([\d.]+) (\w+) for an array")
"""numpy's."""
_UNITS: Final = {"bytes": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50, "EiB": 2**60}
"""Bytes in the units of those messages."""
_WITHOUT_MEMORY: Final = frozenset(("FakeTensor", "FunctionalTensor"))
"""Tensors of torch's compiler and exporter that only stand for others; their sizes may be no numbers."""
_SHOWN: Final = 3
"""Largest tensors that are listed."""
_MANY: Final = 8
"""A list with at least so many tensors that still have graphs is one that grows with the run."""


@dataclass(frozen=True, slots=True)
class _Request:
    asked: float | None
    """Bytes, where the message says."""
    device: str
    room: str = ""
    """` of its 80 GiB (2 GiB were free)`"""


@dataclass(slots=True)
class _Holding:
    """Bytes that one group of tensors holds, each storage counted once."""

    title: str
    tensors: Sequence[Tensor]

    def bytes(self, device: str, seen: set[int]) -> int:
        total = 0
        for tensor in self.tensors:
            if tensor.device.type != device or tensor.layout is not torch.strided:
                continue
            storage = tensor.untyped_storage()
            if storage_id(storage) not in seen:
                seen.add(storage_id(storage))
                total += storage.nbytes()
        return total


def explain(scene: Scene) -> Explanation | None:
    request = _request(scene)
    if request is None:
        return None
    tensors = _alive()
    holders = _holders(scene, tensors, request.device)
    growing = _growing(scene)
    asked = size(request.asked) if request.asked is not None else "memory"
    message = f"{spot(scene.place)} asked for {asked}, and {request.device} did not have that much left{request.room}."
    statement = scene.crash.statement
    return Explanation(
        "memory",
        message,
        (
            *(
                (f"The line is: {scene.crash.text(statement)}",)
                if statement is not None and not hasattr(statement, "body")
                else ()
            ),
            *holders,
            *_largest(scene, tensors, request.device),
            *(
                f"`{name}` is a list of {counted(count, 'tensor')} that each keep the graph of their step."
                for name, count in growing
            ),
        ),
        _fix(scene, request, growing),
        scene.place,
    )


def _request(scene: Scene) -> _Request | None:
    if "DataLoader worker process" in scene.message:
        return None  # another process's memory, at a line that is not here
    found = _CUDA.search(scene.message)
    if found is not None:
        free = f" ({found[5]} were free)" if found[5] else ""
        return _Request(float(found[1]) * _UNITS[found[2]], "cuda", f" of its {found[4]}{free}")
    if isinstance(scene.error, torch.OutOfMemoryError):
        return _Request(None, "cuda")
    found = _CPU.search(scene.message)
    if found is not None:
        return _Request(float(found[1]), "cpu")
    if isinstance(scene.error, MemoryError):
        found = _NUMPY.search(scene.message)
        return _Request(float(found[1]) * _UNITS[found[2]] if found is not None else None, "cpu")
    return None


def _alive() -> list[Tensor]:
    """Every tensor that Python knows and that has memory. `type` is asked, not isinstance, which would wake proxies."""
    found = (thing for thing in gc.get_objects() if issubclass(type(thing), Tensor))
    return [tensor for tensor in found if type(tensor).__name__ not in _WITHOUT_MEMORY]


def _holders(scene: Scene, tensors: list[Tensor], device: str) -> Iterator[str]:
    parameters = [tensor for tensor in tensors if isinstance(tensor, torch.nn.Parameter)]
    optimizers = [value for step in scene.users for value in step.locals.values() if isinstance(value, Optimizer)]
    states = [
        part
        for optimizer in optimizers
        for state in optimizer.state.values()
        for part in state.values()
        if isinstance(part, Tensor)
    ]
    groups = (
        _Holding("parameters", parameters),
        _Holding("gradients", [p.grad for p in parameters if p.grad is not None]),
        _Holding("optimizer state", states),
        _Holding("other tensors in variables", tensors),
    )
    seen: set[int] = set()
    held = [(group.title, group.bytes(device, seen)) for group in groups]
    if any(count for _, count in held):
        yield f"Held on {device}: " + ", ".join(f"{title} {size(count)}" for title, count in held if count) + "."
    if device == "cuda" and torch.cuda.is_available():
        rest = torch.cuda.memory_allocated() - sum(count for _, count in held)
        if rest > 0:
            yield f"The other {size(rest)} is what graphs keep for backward, and buffers inside torch."


def _largest(scene: Scene, tensors: list[Tensor], device: str) -> Iterator[str]:
    names = {
        id(value): name
        for step in reversed(scene.users)
        for name, value in list(step.locals.items())
        if isinstance(value, Tensor)
    }
    named = [tensor for tensor in tensors if id(tensor) in names and tensor.device.type == device]
    named.sort(key=lambda tensor: tensor.numel() * tensor.element_size(), reverse=True)
    if named:
        parts = (f"`{names[id(t)]}` {described(t)} {size(t.numel() * t.element_size())}" for t in named[:_SHOWN])
        yield f"The largest in variables: {', '.join(parts)}."


def _growing(scene: Scene) -> list[tuple[str, int]]:
    """Lists that keep tensors with their graphs."""
    found: list[tuple[str, int]] = []
    for step in scene.users:
        for name, value in list(step.locals.items()):
            count = (
                sum(1 for part in value if isinstance(part, Tensor) and part.grad_fn is not None)
                if type(value) is list
                else 0
            )
            if count >= _MANY:
                found.append((name, count))
    return found


def _batch(scene: Scene) -> int | None:
    """The batch size: the first dimension of what the outermost model was called with."""
    for step in scene.steps:
        if step.owner is None or step.function in CALL_FRAMES:
            continue
        code = step.frame.f_code
        given: Any = step.locals.get(code.co_varnames[1]) if code.co_argcount > 1 else None
        if isinstance(given, Tensor) and given.ndim > 1:
            return int(given.shape[0])
    return None


def _fix(scene: Scene, request: _Request, growing: list[tuple[str, int]]) -> str:
    steps = [f"keep numbers in `{name}`, not tensors: {name}.append(loss.item())" for name, _ in growing[:1]]
    batch = _batch(scene)
    if batch is not None and batch > 1:
        steps.append(f"halve the batch (now {batch}) and accumulate gradients over two")
    if request.device == "cuda":
        steps += [
            "evaluate under torch.no_grad()",
            "train under torch.autocast(device_type='cuda', dtype=torch.bfloat16)",
            "recompute activations with torch.utils.checkpoint",
        ]
    elif batch is None:
        steps.append("check the sizes on that line, or work in smaller pieces")
    return "In this order: " + "; ".join(steps) + "." if len(steps) > 1 else f"{steps[0][0].upper()}{steps[0][1:]}."
