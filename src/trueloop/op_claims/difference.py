"""How two results differ, beyond rounding.

The tolerance is torch.testing's for the dtype, plus the reference's own error against float64: a result may be as far
from the truth as the reference is. So a kernel that computes in low precision as honestly as torch does passes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.op_claims.sample import short_dtype

__all__ = ["Difference", "bytes_of", "difference", "largest_error"]

TOLERANCE: Final = {  # dtype -> (relative, absolute), as torch.testing.assert_close
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
}
OWN_ERROR: Final = 3.0  # Times the reference's own error
ROUNDINGS: Final = 2.0  # Units in the last place of the largest value: sums in a different order


@dataclass(frozen=True)
class Difference:
    what: str  # 'the result is float32, the reference gives float64'
    evidence: dict[str, object] = field(default_factory=dict)


def difference(
    got: Sequence[Any], expected: Sequence[Any], truth: Sequence[Any] | None = None, *, edges: bool = False
) -> Difference | None:
    """None: they agree. `truth`: the reference in float64. `edges`: inputs hold edge values; elements at which the
    reference itself is far from float64 are left out."""
    if len(got) != len(expected):
        return Difference(f"{len(got)} results instead of {len(expected)}")
    exact = list(truth) if truth is not None and len(truth) == len(expected) else [None] * len(expected)
    for number, (one, other, true) in enumerate(zip(got, expected, exact, strict=True)):
        which = f" {number}" if len(got) > 1 else ""
        found = _of_one(one, other, true, f"result{which}", edges)
        if found is not None:
            return found
    return None


def _of_one(got: Any, expected: Any, truth: Any, what: str, edges: bool) -> Difference | None:
    if not isinstance(got, Tensor) or not isinstance(expected, Tensor):
        same = not isinstance(got, Tensor) and not isinstance(expected, Tensor) and got == expected
        return None if same else Difference(f"the {what} is {_name(got)} instead of {_name(expected)}")
    for about in ("shape", "dtype", "device"):
        one, other = getattr(got, about), getattr(expected, about)
        if one != other:
            return Difference(f"the {about} of the {what} is {_plain(one)} instead of {_plain(other)}")
    got, expected = got.detach(), expected.detach()
    if not got.is_floating_point():
        wrong = got != expected
    else:
        usable = isinstance(truth, Tensor) and truth.shape == expected.shape and truth.is_floating_point()
        wrong = _far(got, expected, truth.detach() if usable else None, edges)
    if not bool(wrong.any()):
        return None
    return _described(got, expected, wrong, what)


def _far(got: Tensor, expected: Tensor, truth: Tensor | None, edges: bool) -> Tensor:
    """Where `got` agrees neither with the reference nor with the reference in float64."""
    relative, absolute = TOLERANCE.get(got.dtype, (1e-3, 1e-5))
    one, other = got.double(), expected.double()
    true = other if truth is None else truth.double()
    rounded = true.to(got.dtype).double()  # inf where the dtype cannot hold it
    error = torch.where(other.isfinite() & true.isfinite(), (other - true).abs(), 0.0)
    finite = torch.where(other.isfinite(), other.abs(), 0.0)
    scale = float(finite.max()) if finite.numel() and not edges else 1.0
    allowed = absolute * max(scale, 1.0) + relative * torch.where(true.isfinite(), true.abs(), other.abs())
    if edges:
        allowed = allowed + OWN_ERROR * error
    elif error.numel():
        allowed = allowed + OWN_ERROR * error.max() + ROUNDINGS * torch.finfo(got.dtype).eps * scale
    near = _near(one, other, allowed) | _near(one, rounded, allowed)
    if edges and truth is not None:
        near |= ~_near(other, rounded, absolute + relative * rounded.abs() * 4)  # the reference is not right either
    return ~near


def _near(one: Tensor, other: Tensor, allowed: Tensor) -> Tensor:
    close = (one - other).abs() <= allowed
    return (close & one.isfinite() & other.isfinite()) | (one == other) | (one.isnan() & other.isnan())


def _described(got: Tensor, expected: Tensor, wrong: Tensor, what: str) -> Difference:
    at = tuple(wrong.nonzero()[0].tolist())
    place = f" at {list(at)}" if at else ""
    one, other = got[at].item(), expected[at].item()
    largest = largest_error(got, expected)
    more = f"; {int(wrong.sum()):,} of {wrong.numel():,} elements differ" if wrong.numel() > 1 else ""
    return Difference(f"the {what} is {_digits(one)} instead of {_digits(other)}{place}{more}", {"largest": largest})


def largest_error(got: Tensor, expected: Tensor) -> float:
    """The largest finite difference of two tensors."""
    error = (got.double() - expected.double()).abs()
    error = error[error.isfinite()]
    return float(error.max()) if error.numel() else 0.0


def bytes_of(tensor: Tensor) -> bytes:
    """Its elements, exactly: NaN equals NaN, and -0 is not 0."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def _digits(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> str:
    if isinstance(value, torch.dtype):
        return short_dtype(value)
    return str(list(value)) if isinstance(value, torch.Size) else str(value)


def _name(value: Any) -> str:
    return "a tensor" if isinstance(value, Tensor) else f"{value!r}"
