"""Profiler state, CUDA memory snapshots."""

from pathlib import Path
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch._C._autograd import _profiler_enabled as profiler_enabled
from torch._C._profiler import _ExperimentalConfig

__all__ = ["DeviceType", "dump_memory_snapshot", "overload_names", "profiler_enabled", "record_memory_history"]

# profiler_enabled: is a profiler active in this process? DeviceType: where an event of a profile ran. 2.11+


def overload_names() -> Any:
    """As `experimental_config` of a profile: its events have an `overload_name`, such as Tensor of add.Tensor. 2.11+"""
    return _ExperimentalConfig(capture_overload_names=True)


def record_memory_history(on: bool) -> None:
    """Starts or stops recording every CUDA allocation with its stack. 2.11+"""
    torch.cuda.memory._record_memory_history(enabled="all" if on else None)


def dump_memory_snapshot(file: Path) -> None:
    """Writes the recorded allocations for https://pytorch.org/memory_viz. 2.11+"""
    torch.cuda.memory._dump_snapshot(str(file))  # type: ignore[no-untyped-call]
