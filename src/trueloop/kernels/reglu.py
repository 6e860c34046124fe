"""ReGLU, relu(gate) * value, as a C++ extension: compiled on first use, a custom operator afterwards.

    out = reglu(gate, value)          # on the CPU; on a GPU too where nvcc is
    out = reference(gate, value)       # the same in plain torch

An element-wise operation costs memory traffic. torch reads and writes a tensor for each of its operations; compiled C++
reads both inputs once and writes once, and so does its gradient.
"""

import shutil
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor

__all__ = ["compiled", "reference", "reglu"]


def reglu(gate: Tensor, value: Tensor) -> Tensor:
    compiled()
    out: Tensor = torch.ops.trueloop_cpp.reglu(gate, value)
    return out


def reference(gate: Tensor, value: Tensor) -> Tensor:
    return F.relu(gate) * value


@lru_cache(maxsize=1)
def compiled() -> None:
    """Compiles and registers the operator: half a minute the first time, then torch finds it in its cache."""
    from torch.utils import cpp_extension  # only here: it looks for compilers

    here = Path(__file__).parent
    sources = [here / "reglu.cpp"]
    if torch.cuda.is_available() and shutil.which("nvcc"):
        sources.append(here / "reglu.cu")
    try:
        cpp_extension.load(
            # OpenMP by flag, or at::parallel_for is a loop on one thread, without a word; torch has loaded the library.
            f"trueloop_reglu{len(sources)}", [str(each) for each in sources],
            extra_cflags=["-O3", *(["-fopenmp"] if sys.platform == "linux" else [])],
            is_python_module=False, with_cuda=len(sources) > 1,
        )  # fmt: skip
    except (RuntimeError, OSError) as error:
        raise RuntimeError(
            "reglu: the C++ extension could not be compiled, so nothing was computed. It needs a C++ compiler and "
            f"ninja (pip install ninja); reference(gate, value) needs neither. The compiler said: {error}"
        ) from error
    torch.library.register_fake("trueloop_cpp::reglu", _shape)
    torch.library.register_fake("trueloop_cpp::reglu_backward", _shapes)
    torch.library.register_autograd("trueloop_cpp::reglu", _backward, setup_context=_keep)


def _shape(gate: Tensor, value: Tensor) -> Tensor:
    return gate.new_empty(gate.shape)


def _shapes(arrived: Tensor, gate: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    return gate.new_empty(gate.shape), gate.new_empty(gate.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, arrived: Tensor) -> tuple[Tensor, Tensor]:
    gate, value = ctx.saved_tensors
    if torch.is_grad_enabled():  # create_graph: in operations that have a gradient themselves
        return arrived * value * (gate > 0), arrived * F.relu(gate)
    gradients: tuple[Tensor, Tensor] = torch.ops.trueloop_cpp.reglu_backward(arrived, gate, value)
    return gradients
