"""Facts about the machine, the model and the data that knobs decide by. The model is built once on the CPU."""

import hashlib
import importlib.util
import inspect
import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import torch
from torch import nn

from trueloop import __version__
from trueloop.data.stream import Stream
from trueloop.engine.batches import SHARE
from trueloop.engine.build_model import build_model
from trueloop.engine.optimizer import FUSED_EVERYWHERE, optimizer_class
from trueloop.engine.read_data import read_data
from trueloop.engine.recompute import blocks_of
from trueloop.engine.torch_settings import pick_device
from trueloop.measure.randomness import fence
from trueloop.profile.ceilings import machine_name
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.results.tune import Place
from trueloop.torch_private.tensors import has_bf16_instructions

__all__ = ["MachineFacts", "gather_facts"]

BF16_FLAGS: Final = frozenset({"bf16", "avx512_bf16", "amx_bf16"})
"""In /proc/cpuinfo. Without them bf16 runs in software, some fifty times slower than fp32."""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    place: Place
    device: Literal["cpu", "cuda", "mps"]
    cores: int  # Physical cores that this process may use
    threads: int  # torch's default
    native_bf16: bool
    compiler: str  # Why torch cannot compile; empty: it can
    convolutions: bool  # Does the model have nn.Conv2d?
    blocks: int  # Repeated blocks, for activation checkpointing
    can_fuse: bool  # Does the optimizer have a fused step on this device?
    data_bytes: int | None  # Size of the training data as tensors; None: they are read on demand
    data_fit: bool  # Do they fit on the device?
    samples: int
    shapes: str  # A digest of the parameter names and shapes and of the source of model and data
    step_seconds: float = 0.0  # Of the reference, once measured


def gather_facts(recipe: Recipe, request: DataRequest) -> MachineFacts:
    """Errors of the user's data or model pass through."""
    device = pick_device(recipe.device)
    splits = read_data(recipe, request)
    if isinstance(splits.train, Stream):
        splits.train.refuse()  # trials compare the same batches
    with fence(recipe.seed):
        model = build_model(recipe, splits.facts)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if device.type == "cuda":
        memory = torch.cuda.get_device_properties(device).total_memory
    cores = _physical_cores()
    size = splits.train.nbytes()
    return MachineFacts(
        place=Place(device.type, machine_name(device), os.cpu_count() or 1, memory, torch.__version__, __version__),
        device="cuda" if device.type == "cuda" else "mps" if device.type == "mps" else "cpu",
        cores=cores,
        threads=torch.get_num_threads(),
        native_bf16=_native_bf16(device),
        compiler=_why_no_compiler(device),
        convolutions=any(isinstance(module, nn.Conv2d) for module in model.modules()),
        blocks=len(blocks_of(model)),
        can_fuse=_can_fuse(recipe, device),
        data_bytes=size,
        data_fit=size is not None and size < SHARE * memory,
        samples=len(splits.train),
        shapes=_digest(recipe, model),
    )


def _cpuinfo() -> str:
    file = Path("/proc/cpuinfo")
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


def _physical_cores() -> int:
    """Without hyper-threads; only cores that this process may use."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    package, pairs = "", set()
    for line in _cpuinfo().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "physical id":
            package = value.strip()
        elif name.strip() == "core id":
            pairs.add((package, value.strip()))
    return min(allowed, len(pairs) or allowed)


def _native_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type == "mps":
        return False
    lines = (line for line in _cpuinfo().splitlines() if line.lower().startswith(("flags", "features")))
    flags = {word for line in lines for word in line.split()}
    if platform.machine().lower() not in ("x86_64", "amd64", "aarch64", "arm64") or not flags & BF16_FLAGS:
        return False
    return has_bf16_instructions()


def _why_no_compiler(device: torch.device) -> str:
    if device.type == "cuda":
        missing = "torch needs Triton to compile for CUDA, and it is not installed"
        return "" if importlib.util.find_spec("triton") else missing
    if device.type == "mps":
        return "compiling for MPS is not supported here"
    found = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    return "" if found else "torch needs a C++ compiler, and neither g++ nor clang++ is installed"


def _can_fuse(recipe: Recipe, device: torch.device) -> bool:
    if not isinstance(recipe.optimizer, str):
        return False
    kind = optimizer_class(recipe.optimizer)
    has = "fused" in inspect.signature(kind).parameters
    return has and (device.type == "cpu" or kind.__name__ in FUSED_EVERYWHERE)


def _digest(recipe: Recipe, model: nn.Module) -> str:
    """Shapes alone do not distinguish a ReLU from a GELU: the model's repr and source do."""
    shapes: Mapping[str, list[int]] = {name: list(value.shape) for name, value in model.state_dict().items()}
    parts = [repr(shapes), str(model)]
    for made in (recipe.model, recipe.data, recipe.loss, type(model)):
        file = inspect.getsourcefile(made) if inspect.isfunction(made) or inspect.isclass(made) else None
        if file and Path(file).is_file():
            parts.append(hashlib.sha256(Path(file).read_bytes()).hexdigest())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
