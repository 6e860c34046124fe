"""What a training keeps in memory: parameters, gradients, optimizer state, buffers, activations; and the peak that was
seen."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trueloop.profile.work import WorkCounter
from trueloop.results.profile import Memory

__all__ = ["CudaPeak", "Kept", "own_parameters"]


class Kept:
    """The tensors that outlive a step. Asked at the end of one, when gradients and optimizer state are there."""

    def __init__(self, models: Iterable[nn.Module], optimizers: Iterable[Optimizer]) -> None:
        models, optimizers = list(models), list(optimizers)
        parameters = {
            **{id(each): each for model in models for each in model.parameters()},
            **{
                id(each): each
                for optimizer in optimizers
                for group in optimizer.param_groups
                for each in group["params"]
            },
        }
        states = [value for optimizer in optimizers for state in optimizer.state.values() for value in _values(state)]
        self.parameters = _bytes(parameters.values())
        self.gradients = _bytes(each for each in parameters.values() if each.requires_grad)
        self.optimizer = _bytes(states)
        self.buffers = _bytes(buffer for model in models for buffer in model.buffers())
        alive = [each.grad for each in parameters.values() if each.grad is not None]
        kept = [*parameters.values(), *states, *alive, *(buffer for model in models for buffer in model.buffers())]
        self.storages = {each.untyped_storage().data_ptr() for each in kept if not _is_strange(each)}
        self.gradients_alive = _bytes(alive)
        self.device = next((each.device for each in parameters.values()), torch.device("cpu"))

    def memory(self, counter: WorkCounter | None, peak: CudaPeak | None) -> Memory:
        parts: dict[str, Any] = {
            "parameters": self.parameters,
            "gradients": self.gradients,
            "optimizer": self.optimizer,
            "buffers": self.buffers,
        }
        activations = sum(counter.activations.values()) if counter else 0
        facts: dict[str, Any] = {"process": _process_peak(), "capacity": _capacity(self.device)}
        known = sum(parts.values()) + activations
        if peak is not None and peak.bytes:
            facts |= {
                "measured": peak.bytes,
                "how": "the allocator's own count, in the timed steps",
                "fragmentation": peak.unused,
            }
        elif counter is not None:
            standing = self.parameters + self.optimizer + self.buffers + self.gradients_alive
            facts |= {
                "measured": standing + counter.peak,
                "how": "tensors alive, counted operation by operation in one step",
            }
        if facts.get("measured"):
            facts["workspace"] = max(0, facts["measured"] - known)
        if counter is not None:
            facts |= {"moment": counter.peak_phase, "module": counter.peak_module}
        return Memory(**parts, activations=activations, **facts)


class CudaPeak:
    """What CUDA's allocator has given out at most, from now on."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.bytes, self.unused = device, 0, 0
        torch.cuda.reset_peak_memory_stats(device)

    def read(self) -> None:
        stats = torch.cuda.memory_stats(self.device)
        self.bytes = int(stats.get("allocated_bytes.all.peak", 0))
        self.unused = max(0, int(stats.get("reserved_bytes.all.peak", 0)) - self.bytes)


def own_parameters(model: nn.Module) -> dict[str, int]:
    """Bytes by module, without those of modules inside it."""
    return {name: _bytes(module.parameters(recurse=False)) for name, module in model.named_modules()}


def _values(state: Any) -> list[Tensor]:
    values = state.values() if isinstance(state, dict) else ()
    return [
        each for value in values for each in (value if isinstance(value, list) else [value]) if isinstance(each, Tensor)
    ]


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)


def _is_strange(tensor: Tensor) -> bool:
    """Has it no storage to look at: a shard, a lazy parameter, something on no device?"""
    return type(tensor) not in (Tensor, nn.Parameter) or tensor.is_meta or tensor.is_sparse


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
