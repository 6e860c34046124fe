"""`torch.export` of a program: the batch size is dynamic, sequence lengths too where the model allows it."""

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from typing import Any, Final

import torch
from torch.export import Dim, ExportedProgram

from trueloop.export.device import torch_device
from trueloop.export.exporter import Example
from trueloop.results.artifact import Port

__all__ = ["LONGEST", "suppress_output", "trace"]

LONGEST: Final = 1 << 30  # An upper bound of this or more means: unbounded


@contextmanager
def suppress_output() -> Iterator[None]:
    """Exporters print graphs and deprecation warnings; their failures are raised."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        logger.setLevel(level)


def trace(
    program: torch.nn.Module, example: Example, batch_limit: int | None = None
) -> tuple[ExportedProgram, tuple[Port, ...]]:
    """The graph, and its inputs with the model's limits. torch refuses a model that fixes the batch size."""
    batch = Dim("batch", min=1, max=batch_limit)
    shapes = tuple(_dynamic(port, batch, bounded=batch_limit is not None) for port in example.ports)
    device = torch_device(example.device)
    if device.type != "cpu":
        program.to(device)
    with torch.no_grad(), suppress_output():
        tensors = tuple(tensor.to(device) for tensor in example.tensors)
        graph = torch.export.export(program, tensors, dynamic_shapes={"tensors": shapes}, strict=False)
    return graph, _ports(graph, example.ports, batch_limit)


def _dynamic(port: Port, batch: Any, *, bounded: bool) -> dict[int, Any]:
    """The batch must stay dynamic; a sequence length may become constant. Targets that plan memory need its bound."""
    free = [at for at, size in enumerate(port.shape) if size is None]
    return {at: batch if at == 0 else Dim.AUTO(max=port.limit(at)) if bounded else Dim.AUTO for at in free}


def _ports(graph: ExportedProgram, ports: tuple[Port, ...], batch_limit: int | None) -> tuple[Port, ...]:
    """The inputs with the sizes of the graph."""
    nodes = {node.name: node for node in graph.graph.nodes if node.op == "placeholder"}
    made = []
    for port, name in zip(ports, graph.graph_signature.user_inputs, strict=True):
        sizes = [_constant(size) for size in nodes[str(name)].meta["val"].shape]
        shape = tuple(None if isinstance(size, torch.SymInt) else int(size) for size in sizes)
        most = tuple(_upper_bound(graph, size) if isinstance(size, torch.SymInt) else None for size in sizes)
        if len(most) and batch_limit is not None:
            most = (batch_limit, *most[1:])
        made.append(replace(port, shape=shape, most=most))
    return tuple(made)


def _constant(size: int | torch.SymInt) -> int | torch.SymInt:
    """A size that the model has fixed is still symbolic at the input."""
    known = size.node.maybe_as_int() if isinstance(size, torch.SymInt) else size
    return size if known is None else int(known)


def _upper_bound(graph: ExportedProgram, size: torch.SymInt) -> int | None:
    limits = graph.range_constraints.get(size.node.expr)
    upper = None if limits is None else limits.upper
    return int(upper) if upper is not None and upper.is_Integer and int(upper) < LONGEST else None
