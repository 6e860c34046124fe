"""As much of Triton as our kernel uses, run by torch on the CPU, one program after the other.

It checks what the kernel computes, and that no address outside a tensor's memory is read or written; not how it
compiles, nor its speed: tests/gpu does that.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

__all__ = ["load"]

_program = 0


@dataclass(frozen=True)
class Pointer:
    """Into a tensor's memory; one address, or many."""

    memory: Tensor
    at: Any = 0

    def __add__(self, offset: Any) -> Pointer:
        return Pointer(self.memory, self.at + offset)

    @property
    def dtype(self) -> SimpleNamespace:
        return SimpleNamespace(element_ty=self.memory.dtype)

    def places(self, mask: Any) -> Tensor:
        """Addresses, those outside the mask brought to 0; one outside the memory is an error."""
        places = torch.as_tensor(self.at) if mask is None else torch.where(mask, self.at, 0)
        assert int(places.min()) >= 0, "reads or writes before its memory"
        assert int(places.max()) < len(self.memory), "reads or writes behind its memory"
        return places


def _pointer(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    length = value.untyped_storage().nbytes() // value.element_size() - value.storage_offset()
    return Pointer(value.as_strided((length,), (1,)))


def _load(pointer: Pointer, mask: Any = None, other: Any = None, eviction_policy: str = "") -> Tensor:
    found = pointer.memory[pointer.places(mask)]
    return found if mask is None else torch.where(mask, found, torch.as_tensor(other, dtype=found.dtype))


def _store(pointer: Pointer, value: Any, mask: Any = None) -> None:
    places, values = (torch.as_tensor(each).reshape(-1) for each in (pointer.places(mask), value))
    chosen = slice(None) if mask is None else mask.reshape(-1)
    pointer.memory[places[chosen]] = values[chosen].to(pointer.memory.dtype)


class _Kernel:
    """`kernel[grid](...)`, as Triton has it."""

    def __init__(self, body: Callable[..., None]) -> None:
        self.body = body

    def __getitem__(self, grid: tuple[int]) -> Callable[..., None]:
        def launch(*args: Any, num_warps: int, **constants: Any) -> None:
            global _program
            assert num_warps in (4, 8, 16, 32)
            assert constants["BLOCK"] & (constants["BLOCK"] - 1) == 0, "a block of Triton is a power of two"
            for _program in range(grid[0]):
                self.body(*map(_pointer, args), **constants)

        return launch


def _language() -> ModuleType:
    language = ModuleType("triton.language")
    language.__dict__.update(
        constexpr=lambda value: value,
        float32=torch.float32, int32=torch.int32, int64=torch.int64,
        program_id=lambda _: torch.tensor(_program, dtype=torch.int32),
        arange=lambda first, last: torch.arange(first, last, dtype=torch.int32),
        zeros=lambda shape, dtype: torch.zeros(shape, dtype=dtype),
        full=lambda shape, value, dtype: torch.full(shape, value, dtype=dtype),
        load=_load, store=_store, where=torch.where, exp2=torch.exp2, log2=torch.log2,
        maximum=lambda one, two: torch.maximum(torch.as_tensor(one), torch.as_tensor(two)),
        max=lambda values, axis: values.amax(axis), sum=lambda values, axis: values.sum(axis),
        debug_barrier=lambda: None,
    )  # fmt: skip
    return language


def load(file: Path, patch: pytest.MonkeyPatch) -> Any:
    """The module of a file that imports Triton, with this in Triton's place."""
    triton, language = ModuleType("triton"), _language()
    triton.__dict__.update(jit=_Kernel, language=language, next_power_of_2=lambda n: 1 << (n - 1).bit_length())
    patch.setitem(sys.modules, "triton", triton)
    patch.setitem(sys.modules, "triton.language", language)
    patch.setattr(torch.cuda, "device", lambda _: contextlib.nullcontext())
    spec = importlib.util.spec_from_file_location("kernel_on_the_stand_in", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
