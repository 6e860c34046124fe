"""Memory of a training run: parameters, gradients, optimizer state, buffers, activations, and the measured peak."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trueloop.profile.work_counter import WorkCounter
from trueloop.results.profile import Memory

__all__ = ["CudaPeak", "PersistentTensors", "own_parameters"]


class PersistentTensors:
    """The tensors that outlive a step. Create it at the end of a step, when gradients and optimizer state exist."""

    def __init__(self, models: Iterable[nn.Module], optimizers: Iterable[Optimizer]) -> None:
        models, optimizers = list(models), list(optimizers)
        groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        parameters = {id(each): each for model in models for each in model.parameters()}
        parameters |= {id(each): each for group in groups for each in group["params"]}
        states = [value for optimizer in optimizers for state in optimizer.state.values() for value in _values(state)]
        self.parameters = _bytes(parameters.values())
        self.gradients = _bytes(each for each in parameters.values() if each.requires_grad)
        self.optimizer = _bytes(states)
        buffers = [buffer for model in models for buffer in model.buffers()]
        self.buffers = _bytes(buffers)
        alive = [each.grad for each in parameters.values() if each.grad is not None]
        kept = [*parameters.values(), *states, *alive, *buffers]
        self.storages = {each.untyped_storage().data_ptr() for each in kept if _has_storage(each)}
        self.gradients_alive = _bytes(alive)
        self.device = next((each.device for each in parameters.values()), torch.device("cpu"))

    def memory(self, counter: WorkCounter | None, peak: CudaPeak | None) -> Memory:
        names = ("parameters", "gradients", "optimizer", "buffers")
        parts: dict[str, Any] = {name: getattr(self, name) for name in names}
        activations = sum(counter.activations.values()) if counter else 0
        facts: dict[str, Any] = {"process": _process_peak(), "capacity": _capacity(self.device)}
        known = sum(parts.values()) + activations
        if peak is not None and peak.bytes:
            how = "by the CUDA allocator in the timed steps"
            facts |= {"measured": peak.bytes, "how": how, "fragmentation": peak.unused}
        elif counter is not None:
            standing = self.parameters + self.optimizer + self.buffers + self.gradients_alive
            facts |= {"measured": standing + counter.peak, "how": "live tensors, counted per operation in one step"}
        if facts.get("measured"):
            facts["workspace"] = max(0, facts["measured"] - known)
        if counter is not None:
            facts |= {"moment": counter.peak_phase, "module": counter.peak_module}
        return Memory(**parts, activations=activations, **facts)


class CudaPeak:
    """The peak of the CUDA allocator from now on."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.bytes, self.unused = device, 0, 0
        torch.cuda.reset_peak_memory_stats(device)

    def read(self) -> None:
        stats = torch.cuda.memory_stats(self.device)
        self.bytes = int(stats.get("allocated_bytes.all.peak", 0))
        self.unused = max(0, int(stats.get("reserved_bytes.all.peak", 0)) - self.bytes)


def own_parameters(model: nn.Module) -> dict[str, int]:
    """Bytes by module, without its submodules."""
    return {name: _bytes(module.parameters(recurse=False)) for name, module in model.named_modules()}


def _values(state: Any) -> list[Tensor]:
    values = state.values() if isinstance(state, dict) else ()
    flat = (each for value in values for each in (value if isinstance(value, list) else [value]))
    return [each for each in flat if isinstance(each, Tensor)]


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)


def _has_storage(tensor: Tensor) -> bool:
    """Not for shards, lazy parameters, and sparse or meta tensors."""
    return type(tensor) in (Tensor, nn.Parameter) and not tensor.is_meta and not tensor.is_sparse


def _process_peak() -> int:
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _capacity(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, AttributeError):  # not on this system
        return 0
