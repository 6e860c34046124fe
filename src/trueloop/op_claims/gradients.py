"""Gradients of an operation or of its reference, for incoming gradients that are the same for both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trueloop.op_claims.op_subject import OpSubject
from trueloop.op_claims.sample import Sample

__all__ = ["Gradients", "gradients", "incoming_for", "zero_filled"]


@dataclass(frozen=True)
class Gradients:
    sample: Sample  # with the leaves that were differentiated
    leaves: list[Tensor]
    results: list[Tensor]  # those with a gradient
    incoming: list[Tensor]
    values: list[Tensor | None] | None  # one for each leaf; None: no result has a graph


def gradients(
    subject: OpSubject,
    sample: Sample,
    function: Callable[..., Any] | None = None,
    *,
    incoming: Sequence[Tensor] | None = None,
    wanted: Sequence[int] | None = None,
    create_graph: bool = False,
    retain_graph: bool = False,
) -> Gradients:
    """`wanted`: numbers of the floating-point tensors to differentiate; None: all. Raises NotTaken."""
    leaves: list[Tensor] = []
    seen = [0]

    def leaf(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        number, seen[0] = seen[0], seen[0] + 1
        if wanted is not None and number not in wanted:
            return tensor.detach()
        made = tensor.detach().requires_grad_()
        leaves.append(made)
        return made.clone() if subject.in_place else made  # a leaf cannot be written

    prepared = sample.map(leaf)
    results = subject.results(prepared, function)
    graph = [each for each in results if isinstance(each, Tensor) and each.requires_grad]
    if not graph or not leaves:
        return Gradients(prepared, leaves, graph, [], None)
    arriving = list(incoming) if incoming is not None else [incoming_for(each) for each in graph]
    with subject.taking(function):
        values = torch.autograd.grad(
            graph,
            leaves,
            arriving,
            allow_unused=True,
            create_graph=create_graph,
            retain_graph=retain_graph or create_graph,
        )
    return Gradients(prepared, leaves, graph, arriving, list(values))


def incoming_for(result: Tensor) -> Tensor:
    """Depends on the shape alone."""
    draws = torch.Generator().manual_seed(result.numel() + 7 * result.dim())
    return torch.randn(result.shape, generator=draws, dtype=torch.float64).to(result.dtype).to(result.device)


def zero_filled(found: Gradients) -> list[Tensor]:
    """No gradient for an input is a gradient of zero."""
    values = found.values if found.values is not None else [None] * len(found.leaves)
    pairs = zip(found.leaves, values, strict=True)
    return [torch.zeros_like(leaf) if value is None else value for leaf, value in pairs]
