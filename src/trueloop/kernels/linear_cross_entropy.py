"""Fused linear + cross entropy: the loss of `hidden @ weight.T` against class numbers, without ever holding all those
scores.

    loss_sum = linear_cross_entropy(hidden, weight, targets)   # [N, D], [V, D], [N]: a sum over targets that count
    loss_sum = reference(hidden, weight, targets)              # the same in plain torch, with scores [N, V] in memory

A language model with 50,304 tokens has 65 times as many scores as it has features: for 16,384 places 1.6 GB in bf16,
and as much again for their gradient. Here rows are taken in chunks. Each chunk's scores are made, turned into losses
and overwritten with their own gradient by one kernel, multiplied into the gradients of `hidden` and `weight`, and
forgotten. So the gradients exist when the forward is done; the backward multiplies them by the gradient that arrives.

Numbers: products in the type of autocast, or the inputs' own; log-sum-exp, losses and the gradient of the weight are
added up in float32 (float64 for float64). A target that is neither a class nor `ignore` is refused on the CPU, and
gives NaN, in loss and gradients, on a GPU. It can be differentiated once; gradients that nobody needs are not computed;
nothing waits for the device, so it may be captured in a CUDA graph, after one call that compiles the kernel.
"""

import warnings
from functools import lru_cache
from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor

from trueloop.kernels import softmax_gradient as plain
from trueloop.kernels.triton_here import runs_triton

__all__ = ["KERNEL", "chunk_rows", "linear_cross_entropy", "reference"]

LARGEST_CUDA: Final = 400 << 20
"""Bytes of the scores of a chunk on a GPU: 4,096 rows of 50,304 in bf16, the fastest of five sizes on an H200
(`benchmarks/linear_cross_entropy.py`). Smaller ones read the weight's gradient more often; larger ones gain nothing."""
LARGEST_ELSEWHERE: Final = 32 << 20  # The same on a CPU: about what its last cache holds
TILE: Final = 128  # Rows are cut at multiples of this, the height of a tile of a matrix product
ALIGNED: Final = (
    64  # columns in memory are a multiple of this: each row begins on a cache line, read 16 bytes at a time
)
KERNEL: Final = "stream"  # Of `softmax_gradient_triton.CONFIGURATIONS`
_SCHEMA: Final = (
    "(Tensor hidden, Tensor weight, Tensor targets, int ignore, ScalarType precision, bool for_hidden, bool "
    "for_weight, int rows, str kernel) -> (Tensor, Tensor, Tensor)"
)


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, ignore: int = -100, *, rows: int = 0, kernel: str = KERNEL
) -> Tensor:
    """The sum of the losses of all targets except `ignore`, in float32. `rows`: rows per chunk; 0: chosen by memory."""
    _refuse_shapes(hidden, weight, targets)
    graph = torch.is_grad_enabled()
    needed = graph and hidden.requires_grad, graph and weight.requires_grad
    loss: Tensor = _operator(hidden, weight, targets, ignore, _precision(hidden, weight), *needed, rows, kernel)[0]
    return loss


def reference(hidden: Tensor, weight: Tensor, targets: Tensor, ignore: int = -100) -> Tensor:
    """The same loss from torch alone; tests compare `linear_cross_entropy` with it."""
    return F.cross_entropy(F.linear(hidden, weight), targets, reduction="sum", ignore_index=ignore)


def chunk_rows(rows: int, classes: int, precision: torch.dtype, device: torch.device) -> int:
    """Rows per chunk: as many as the memory budget allows, in chunks of nearly equal size."""
    budget = LARGEST_CUDA if device.type == "cuda" else LARGEST_ELSEWHERE
    most = max(TILE, budget // (_width(classes) * precision.itemsize))
    chunks = max(1, -(-rows // most))
    even = -(-rows // chunks)
    return max(1, min(rows, -(-even // TILE) * TILE))


# -- input checks --


def _refuse_shapes(hidden: Tensor, weight: Tensor, targets: Tensor) -> None:
    fits = hidden.dim() == weight.dim() == 2 and targets.dim() == 1
    if not fits or hidden.shape[1] != weight.shape[1] or len(hidden) != len(targets):
        raise ValueError(
            "linear_cross_entropy needs hidden [N, D], weight [V, D] and targets [N], but they are "
            f"{list(hidden.shape)}, {list(weight.shape)} and {list(targets.shape)}. Nothing was computed."
        )
    if targets.dtype != torch.int64:
        raise TypeError(f"linear_cross_entropy needs class numbers (int64), not {targets.dtype}: use targets.long().")


def _precision(hidden: Tensor, weight: Tensor) -> torch.dtype:
    """The dtype of the matrix products."""
    device = hidden.device.type
    if torch.is_autocast_enabled(device) and torch.float64 not in (hidden.dtype, weight.dtype):
        return torch.get_autocast_dtype(device)
    if hidden.dtype != weight.dtype:
        raise TypeError(
            f"linear_cross_entropy: hidden is {hidden.dtype} and weight {weight.dtype}. Nothing was computed: "
            "convert both to one dtype, or call it under torch.autocast."
        )
    return hidden.dtype


def _refuse_unknown_classes(targets: Tensor, classes: int, ignore: int) -> None:
    """Called only where it needs no device synchronization."""
    wrong = targets[((targets < 0) | (targets >= classes)) & (targets != ignore)]
    if len(wrong):
        raise IndexError(
            f"linear_cross_entropy: target {int(wrong[0])} is out of range: classes go from 0 to {classes - 1}, and "
            f"{ignore} is ignored."
        )


# -- the operator --


def _computed(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    ignore: int,
    precision: torch.dtype,
    for_hidden: bool,
    for_weight: bool,
    rows: int,
    kernel: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss, and its gradients where they are asked for: else tensors of no elements."""
    _tell_flop_counters()
    if hidden.device.type == "cpu":
        _refuse_unknown_classes(targets, len(weight), ignore)
    wide = torch.float64 if precision == torch.float64 else torch.float32
    rows = rows or chunk_rows(len(hidden), len(weight), precision, hidden.device)
    losses = hidden.new_empty(len(hidden), dtype=wide)
    of_hidden = hidden.new_empty(hidden.shape if for_hidden else 0)
    of_weight = weight.new_empty(weight.shape if for_weight else 0, dtype=wide)
    if not len(hidden):
        of_weight.zero_()
    with torch.autocast(hidden.device.type, enabled=False):  # the types are chosen, and chosen once
        narrow, table, targets = hidden.to(precision), weight.to(precision), targets.contiguous()
        # On a CPU with AMX, torch's product in bf16 reads the columns behind a row too: NaN there becomes NaN in it.
        make = table.new_empty if table.is_cuda else table.new_zeros
        room = make((min(rows, len(hidden)), _width(len(weight))))
        for first in range(0, len(hidden), rows):
            part = slice(first, first + rows)
            scores = room[: len(targets[part]), : len(weight)]
            _score(narrow[part], table, scores)
            _softmax_gradient(scores, targets[part], losses[part], ignore, for_hidden or for_weight, kernel)
            if for_hidden:
                _multiply(scores, table, of_hidden[part], add=False)
            if for_weight:
                _multiply(scores.t(), narrow[part], of_weight, add=first > 0)
    return losses.sum(), of_hidden, of_weight.to(weight.dtype)


_operator = torch.library.custom_op("trueloop::linear_cross_entropy", _computed, mutates_args=(), schema=_SCHEMA)


@_operator.register_fake
def _shapes(hidden: Tensor, weight: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:
    _, _, precision, for_hidden, for_weight, *_ = others
    loss = hidden.new_empty((), dtype=torch.float64 if precision == torch.float64 else torch.float32)
    of_hidden = hidden.new_empty(hidden.shape if for_hidden else 0)
    return loss, of_hidden, weight.new_empty(weight.shape if for_weight else 0)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    _, of_hidden, of_weight = output
    ctx.computed = inputs[5:7]
    ctx.given = False
    ctx.mark_non_differentiable(of_hidden, of_weight)
    # True would allocate zeros of the weight's size for outputs without a gradient.
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(of_hidden, of_weight)


def _backward(ctx: Any, arrived: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    nothing = (None,) * 7
    if arrived is None:
        return (None, None, *nothing)
    if torch.is_grad_enabled():
        raise RuntimeError(
            "linear_cross_entropy can be differentiated once: it computes its gradients in the forward, so "
            "create_graph=True is not supported. Use F.cross_entropy(F.linear(hidden, weight), targets) instead."
        )
    if ctx.given:
        raise RuntimeError(
            "linear_cross_entropy frees its gradients in the first backward, so a second one (retain_graph=True) is "
            "not possible. Add the losses up and call backward once."
        )
    if any(needed and not computed for needed, computed in zip(ctx.needs_input_grad, ctx.computed, strict=False)):
        raise RuntimeError(
            "trueloop::linear_cross_entropy was called without for_hidden or for_weight, so this gradient is missing: "
            "call linear_cross_entropy instead."
        )
    ctx.given = True
    pairs = zip(ctx.saved_tensors, ctx.computed, strict=True)
    return (*(_scaled(saved, arrived) if computed else None for saved, computed in pairs), *nothing)


def _scaled(saved: Tensor, factor: Tensor) -> Tensor:
    """In place: it is needed once. A compiler that traces this must see no change of a forward's output."""
    return saved.mul_(factor) if type(saved) is Tensor else saved * factor


_operator.register_autograd(_backward, setup_context=_keep)


@lru_cache(maxsize=1)
def _tell_flop_counters() -> None:
    """They see the operator, not its products. Not at import: torch's counter imports Triton where it can."""
    from torch.utils.flop_counter import register_flop_formula

    @register_flop_formula(torch.ops.trueloop.linear_cross_entropy)
    def count(hidden: Any, weight: Any, *others: Any, **_: Any) -> int:
        products = 1 + others[3] + others[4]  # for_hidden, for_weight
        return 2 * hidden[0] * hidden[1] * weight[0] * products  # type: ignore[no-any-return]


# -- its parts --


def _score(hidden: Tensor, table: Tensor, scores: Tensor) -> None:
    """`benchmarks/gpt2.py` puts a product in float8 in its place, to measure what it would give."""
    torch.mm(hidden, table.t(), out=scores)


def _width(classes: int) -> int:
    """Columns of a row in memory."""
    return -(-classes // ALIGNED) * ALIGNED


def _softmax_gradient(scores: Tensor, targets: Tensor, losses: Tensor, ignore: int, write: bool, kernel: str) -> None:
    if scores.is_cuda and runs_triton(scores, "linear_cross_entropy"):
        from trueloop.kernels import softmax_gradient_triton as fused  # only here: it needs Triton

        fused.softmax_gradient(scores, targets, losses, ignore, write=write, kernel=kernel)
    else:
        plain.softmax_gradient(scores, targets, losses, ignore, write=write)


def _multiply(left: Tensor, right: Tensor, out: Tensor, *, add: bool) -> None:
    """`out` = or += `left @ right`, rounded once to the dtype of `out` where torch supports it."""
    if out.dtype == left.dtype:
        if add:
            out.addmm_(left, right)
        else:
            torch.mm(left, right, out=out)
    elif not (out.is_cuda and out.dtype == torch.float32):  # bf16 into fp16, and all of it on a CPU
        product = left @ right
        if add:
            out.add_(product)
        else:
            out.copy_(product)
    elif not add:
        torch.mm(left, right, out_dtype=out.dtype, out=out)
    elif _adds_widely(left.dtype, out.dtype, out.device):
        torch.addmm(out, left, right, out_dtype=out.dtype, out=out)
    else:
        out.add_(torch.mm(left, right, out_dtype=out.dtype))


@lru_cache(maxsize=8)
def _adds_widely(narrow: torch.dtype, wide: torch.dtype, device: torch.device) -> bool:
    """Whether this torch can add a product in a narrow dtype to a matrix in a wide dtype in place."""
    square, out = torch.zeros(16, 16, dtype=narrow, device=device), torch.zeros(16, 16, dtype=wide, device=device)
    try:
        torch.addmm(out, square, square, out_dtype=wide, out=out)
    except RuntimeError as error:
        if "dtype" not in str(error):
            raise
        warnings.warn(
            f"linear_cross_entropy: torch {torch.__version__} cannot add a {narrow} product to a {wide} matrix in "
            "place. It is computed separately and added, which takes more memory.",
            stacklevel=2,
        )
        return False
    return True
