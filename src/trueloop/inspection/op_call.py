"""One call of an operation under the profiler: which operators ran, nested, and which kernels of the device."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from trueloop.op_claims.sample import Sample
from trueloop.torch_private.dispatch import pytree
from trueloop.torch_private.profiler import DeviceType, overload_names

__all__ = ["Call", "Ran", "profiled_call", "traced_sample"]


@dataclass(frozen=True, slots=True)
class Ran:
    """One operator that the dispatcher was asked for."""

    name: str  # aten::add.Tensor
    depth: int  # 0: called by Python
    shapes: tuple[tuple[int, ...], ...]
    kernels: tuple[str, ...]  # of a GPU; kernels of the CPU have no names in a profile


@dataclass(frozen=True, slots=True)
class Call:
    sample: Sample
    ran: tuple[Ran, ...]
    backward: tuple[str, ...]  # grad_fn of the results
    note: str = ""


def profiled_call(function: Callable[..., Any], sample: Sample) -> Call:
    """With inputs that require gradients, where it takes them."""
    try:
        return _call(function, sample.copied().map(_with_gradient))
    except Exception as error:  # noqa: BLE001 - without gradients it is known to run; the reason is in the note
        said = str(error).strip().partition("\n")[0][:160]
        plain = _call(function, sample.copied())
        note = f"Inputs that require gradients raise {type(error).__name__} ({said}): the call was made without them."
        return Call(plain.sample, plain.ran, plain.backward, note)


def traced_sample(call: Call) -> Sample:
    """Inputs of their own for one more such call: the operation may have written into the first."""
    return call.sample.copied() if call.note else call.sample.copied().map(_with_gradient)


def _with_gradient(tensor: Tensor) -> Tensor:
    """Not a leaf: an operation may write it."""
    return tensor.requires_grad_().clone() if tensor.is_floating_point() or tensor.is_complex() else tensor


def _call(function: Callable[..., Any], sample: Sample) -> Call:
    cuda = any(tensor.is_cuda for tensor in sample.tensors())
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    before = {tensor.grad_fn for tensor in sample.tensors()}
    config = overload_names()
    with profile(activities=activities, record_shapes=True, experimental_config=config, acc_events=True) as recorded:
        results = sample.call(function)
        if cuda:
            torch.cuda.synchronize()
    leaves = [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, Tensor)]
    backward = tuple(type(leaf.grad_fn).__name__ for leaf in leaves if leaf.grad_fn not in {*before, None})
    return Call(sample, tuple(_operators(recorded.events() or ())), backward)


def _operators(events: Any) -> Iterator[Ran]:
    host = [event for event in events if event.device_type == DeviceType.CPU and "::" in event.name]
    for event in sorted(host, key=lambda event: (event.time_range.start, -event.time_range.end)):
        parent, depth = event.cpu_parent, 0
        while parent is not None:
            depth += "::" in parent.name
            parent = parent.cpu_parent
        name = f"{event.name}.{event.overload_name}" if event.overload_name else event.name
        shapes = tuple(tuple(shape) for shape in event.input_shapes or () if shape)
        yield Ran(name, depth, shapes, tuple(kernel.name for kernel in event.kernels))
