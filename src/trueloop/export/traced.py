"""From a program to torch's exported graph: the batch is free, sequences too where the model allows it."""

from __future__ import annotations

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
from trueloop.export.exporter import Given
from trueloop.results.artifact import Port

__all__ = ["LONGEST", "quietly", "traced"]

LONGEST: Final = 1 << 30
"""A sequence whose limit is this or more has none."""


@contextmanager
def quietly() -> Iterator[None]:
    """Exporters print graphs, and warn of parts of torch's own that will change; what goes wrong they raise."""
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


def traced(
    program: torch.nn.Module, given: Given, batch_limit: int | None = None
) -> tuple[ExportedProgram, tuple[Port, ...]]:
    """The graph, and its inputs with the limits that the model has. A batch that the model fixes is refused by torch,
    with its line."""
    batch = Dim("batch", min=1, max=batch_limit)
    shapes = tuple(_free(port, batch, bounded=batch_limit is not None) for port in given.ports)
    device = torch_device(given.device)
    if device.type != "cpu":
        program.to(device)
    with torch.no_grad(), quietly():
        tensors = tuple(tensor.to(device) for tensor in given.tensors)
        graph = torch.export.export(program, tensors, dynamic_shapes={"tensors": shapes}, strict=False)
    return graph, _as_it_is(graph, given.ports, batch_limit)


def _free(port: Port, batch: Any, *, bounded: bool) -> dict[int, Any]:
    """The batch must be free; a sequence may turn out to be of one length. A target that plans its memory needs to know
    the longest."""
    free = [number for number, size in enumerate(port.shape) if size is None]
    return {
        number: batch if number == 0 else Dim.AUTO(max=port.limit(number)) if bounded else Dim.AUTO for number in free
    }


def _as_it_is(graph: ExportedProgram, ports: tuple[Port, ...], batch_limit: int | None) -> tuple[Port, ...]:
    """What the graph says of the inputs' sizes."""
    names = graph.graph_signature.user_inputs
    nodes = {node.name: node for node in graph.graph.nodes if node.op == "placeholder"}
    made = []
    for port, name in zip(ports, names, strict=True):
        sizes = [_settled(size) for size in nodes[str(name)].meta["val"].shape]
        shape = tuple(None if isinstance(size, torch.SymInt) else int(size) for size in sizes)
        most = tuple(_most(graph, size) if isinstance(size, torch.SymInt) else None for size in sizes)
        if len(most) and batch_limit is not None:
            most = (batch_limit, *most[1:])
        made.append(replace(port, shape=shape, most=most))
    return tuple(made)


def _settled(size: int | torch.SymInt) -> int | torch.SymInt:
    """A size that the model has fixed still looks free where it goes in."""
    known = size.node.maybe_as_int() if isinstance(size, torch.SymInt) else size
    return size if known is None else int(known)


def _most(graph: ExportedProgram, size: torch.SymInt) -> int | None:
    limits = graph.range_constraints.get(size.node.expr)
    upper = None if limits is None else limits.upper
    return int(upper) if upper is not None and upper.is_Integer and int(upper) < LONGEST else None
