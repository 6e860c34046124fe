"""torch's compiler backend by its inner entry points. Importing it takes seconds: import it where it is needed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch._inductor.lowering  # some decompositions expect that somebody has imported it
from torch import Tensor
from torch._inductor import aoti_compile_and_package, aoti_load_package, config
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.proxy_tensor import make_fx

__all__ = ["aoti_load_package", "compile_graph", "compile_package", "trace_graph"]

# aoti_load_package loads what compile_package has written. 2.11+


def compile_package(program: torch.export.ExportedProgram, file: Path, compiler: str) -> None:
    """Writes an exported program as machine code, made by this C++ compiler. 2.11+"""
    with config.patch({"cpp.cxx": (None, compiler)}):
        aoti_compile_and_package(program, package_path=str(file))


def trace_graph(function: Callable[..., Any], inputs: Sequence[Tensor]) -> torch.fx.GraphModule:
    """The function as one graph of the operators that inductor compiles. 2.11+"""
    trace: Any = make_fx(function, dict(select_decomp_table()), "fake", _allow_non_fake_inputs=True)
    graph: torch.fx.GraphModule = trace(*inputs)
    return graph


def compile_graph(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Any:
    """Compiles a graph with nothing around it: no guards, no autograd. Draws random numbers like eager torch. 2.11+"""
    with config.patch(fallback_random=True):
        return compile_fx_inner(graph, inputs)
