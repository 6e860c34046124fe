"""A GPU, or the machine, ran out of memory: how much was requested, and what holds the rest."""

import gc
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

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
    r"(?s)Tried to allocate ([\d.]+) (\w+)\..*?GPU \d+ has a total capacity of ([\d.]+ \w+)"
    r"(?:.*? of which ([\d.]+ \w+) is free)?"
)  # The CUDA allocator: the request, the capacity, what was free
_CPU: Final = re.compile(r"(?:you tried to allocate|can't allocate memory: you tried to allocate) (\d+) bytes")
_NUMPY: Final = re.compile(r"Unable to allocate ([\d.]+) (\w+) for an array")
_UNITS: Final = {"bytes": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50, "EiB": 2**60}
_WITHOUT_MEMORY: Final = frozenset(("FakeTensor", "FunctionalTensor"))
"""Placeholder tensors of torch's compiler and exporter; their sizes may be symbolic."""
_SHOWN: Final = 3  # The number of largest tensors that are listed
_MANY: Final = 8  # A list with at least this many tensors with graphs is one that grows during the run


class _Request(NamedTuple):
    asked: float | None  # Bytes, if the message has them
    device: str
    room: str = ""  # ` of its 80 GiB (2 GiB were free)`


def _bytes(tensors: Iterable[Tensor], device: str, seen: set[int]) -> int:
    """Bytes on a device, each storage counted once."""
    total = 0
    for tensor in tensors:
        if tensor.device.type == device and tensor.layout is torch.strided:
            storage = tensor.untyped_storage()
            total += 0 if storage_id(storage) in seen else storage.nbytes()
            seen.add(storage_id(storage))
    return total


def explain(scene: Scene) -> Explanation | None:
    request = _request(scene)
    if request is None:
        return None
    tensors, growing, statement = _alive(), _growing(scene), scene.crash.statement
    asked = size(request.asked) if request.asked is not None else "memory"
    details = [*_holders(scene, tensors, request.device), *_largest(scene, tensors, request.device)]
    if statement is not None and not hasattr(statement, "body"):
        details.insert(0, f"The line is: {scene.crash.text(statement)}")
    lists = [(name, counted(count, "tensor")) for name, count in growing]
    details += [f"`{name}` is a list of {held} that each keep the graph of their step." for name, held in lists]
    message = f"{spot(scene.place)} asked for {asked}, but {request.device} did not have that much left{request.room}."
    return scene.explanation(message, tuple(details), _fix(scene, request, growing))


def _request(scene: Scene) -> _Request | None:
    if "DataLoader worker process" in scene.message:
        return None  # the memory of another process
    found = _CUDA.search(scene.message)
    if found is not None:
        free = f" ({found[4]} were free)" if found[4] else ""
        return _Request(float(found[1]) * _UNITS[found[2]], "cuda", f" of its {found[3]}{free}")
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
    """Every live tensor with memory. By `type`, because isinstance would wake proxy objects."""
    found = (thing for thing in gc.get_objects() if issubclass(type(thing), Tensor))
    return [tensor for tensor in found if type(tensor).__name__ not in _WITHOUT_MEMORY]


def _holders(scene: Scene, tensors: list[Tensor], device: str) -> Iterator[str]:
    parameters = [tensor for tensor in tensors if isinstance(tensor, torch.nn.Parameter)]
    optimizers = [value for step in scene.users for value in step.locals.values() if isinstance(value, Optimizer)]
    entries = [entry for optimizer in optimizers for state in optimizer.state.values() for entry in state.values()]
    groups: dict[str, Sequence[Tensor]] = {
        "parameters": parameters,
        "gradients": [p.grad for p in parameters if p.grad is not None],
        "optimizer state": [entry for entry in entries if isinstance(entry, Tensor)],
        "other tensors in variables": tensors,
    }
    seen: set[int] = set()
    held = [(title, _bytes(group, device, seen)) for title, group in groups.items()]
    if any(count for _, count in held):
        yield f"Held on {device}: " + ", ".join(f"{title} {size(count)}" for title, count in held if count) + "."
    if device == "cuda" and torch.cuda.is_available():
        rest = torch.cuda.memory_allocated() - sum(count for _, count in held)
        if rest > 0:
            yield f"The other {size(rest)} are tensors saved for backward, and buffers inside torch."


def _largest(scene: Scene, tensors: list[Tensor], device: str) -> Iterator[str]:
    variables = [pair for step in reversed(scene.users) for pair in list(step.locals.items())]
    names = {id(value): name for name, value in variables if isinstance(value, Tensor)}
    named = [tensor for tensor in tensors if id(tensor) in names and tensor.device.type == device]
    named.sort(key=lambda tensor: tensor.numel() * tensor.element_size(), reverse=True)
    if named:
        parts = (f"`{names[id(t)]}` {described(t)} {size(t.numel() * t.element_size())}" for t in named[:_SHOWN])
        yield f"Largest tensors in variables: {', '.join(parts)}."


def _growing(scene: Scene) -> list[tuple[str, int]]:
    """Lists that keep tensors with their graphs."""
    found: list[tuple[str, int]] = []
    for step in scene.users:
        for name, value in list(step.locals.items()):
            parts = value if type(value) is list else ()
            count = sum(1 for part in parts if isinstance(part, Tensor) and part.grad_fn is not None)
            if count >= _MANY:
                found.append((name, count))
    return found


def _batch(scene: Scene) -> int | None:
    """The batch size: the first dimension of the outermost model's input."""
    for step in scene.steps:
        if step.owner is None or step.function in CALL_FRAMES:
            continue
        code = step.frame.f_code
        given: Any = step.locals.get(code.co_varnames[1]) if code.co_argcount > 1 else None
        if isinstance(given, Tensor) and given.ndim > 1:
            return int(given.shape[0])
    return None


def _fix(scene: Scene, request: _Request, growing: list[tuple[str, int]]) -> str:
    steps = [f"store numbers in `{name}`, not tensors: {name}.append(loss.item())" for name, _ in growing[:1]]
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
        steps.append("check the sizes on that line, or process smaller chunks")
    return "In this order: " + "; ".join(steps) + "." if len(steps) > 1 else f"{steps[0][0].upper()}{steps[0][1:]}."
