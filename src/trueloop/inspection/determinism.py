"""Which operations give different results on CUDA from one call to the next, as torch documents it at
`torch.use_deterministic_algorithms`; by the names that the dispatcher uses. tests/gpu/test_inspect_ops.py compares each
row with what torch does on a GPU. With torch 2.11 on an H200 it differs from the documentation in max_pool3d, which
raises, and in cumsum, which does not; `F.interpolate` (bilinear, trilinear) and `F.pad`
(reflect, two dimensions) call other operations when determinism is demanded."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.op_claims.sample import Sample
from trueloop.torch_private.dispatch import operator_schema

__all__ = ["REFUSED", "SWITCHED", "has_no_deterministic_form", "is_refused_here", "needs_the_switch"]

Condition = Callable[[Mapping[str, Any]], bool]
NOT_DETERMINISTIC: Final = "does not have a deterministic implementation"  # in torch's own error


def _always(_: Mapping[str, Any]) -> bool:
    return True


def _is_float(name: str) -> Condition:
    return lambda given: isinstance(given.get(name), Tensor) and not _is_integer(given[name])


def _is_integer(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() and not tensor.is_complex()


def _equals(name: str, value: Any) -> Condition:
    return lambda given: bool(given.get(name) == value)


REFUSED: Final[Mapping[str, Condition]] = {
    **dict.fromkeys(
        [
            "avg_pool3d_backward", "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward",
            "adaptive_max_pool2d_backward", "fractional_max_pool2d_backward", "fractional_max_pool3d_backward",
            "max_unpool2d", "max_unpool3d", "upsample_linear1d_backward", "upsample_bicubic2d_backward",
            "_upsample_bilinear2d_aa_backward", "_upsample_bicubic2d_aa_backward", "reflection_pad1d_backward",
            "max_pool3d_with_indices_backward", "reflection_pad3d_backward",
            "nll_loss2d_forward", "_ctc_loss_backward", "put", "put_", "histc",
            "grid_sampler_2d_backward", "grid_sampler_3d_backward", "index_reduce", "index_reduce_",
        ],
        _always,
    ),
    "_embedding_bag_backward": _equals("mode", 2),  # max
    "_embedding_bag_dense_backward": _equals("mode", 2),
    "bincount": lambda given: given.get("weights") is not None,
    "median": lambda given: "dim" in given,  # with indices
    "nanmedian": lambda given: "dim" in given,
    "scatter_reduce": _equals("reduce", "prod"),
    "scatter_reduce_": _equals("reduce", "prod"),
}  # fmt: skip
"""Operation -> when torch has no deterministic kernel for it on CUDA."""
SWITCHED: Final[Mapping[str, Condition]] = {
    **dict.fromkeys(
        [
            "convolution", "convolution_backward", "replication_pad1d_backward", "replication_pad2d_backward",
            "replication_pad3d_backward", "scatter_add", "scatter_add_", "index_add", "index_add_", "index_copy",
            "index_copy_", "upsample_bilinear2d_backward", "upsample_trilinear3d_backward", "reflection_pad2d_backward",
        ],
        _always,
    ),
    "index_put": _equals("accumulate", True),
    "index_put_": _equals("accumulate", True),
    "_index_put_impl_": _equals("accumulate", True),
    "scatter": _is_float("src"),
    "scatter_": _is_float("src"),
    "scatter_reduce": lambda given: given.get("reduce") in ("sum", "mean"),
    "scatter_reduce_": lambda given: given.get("reduce") in ("sum", "mean"),
}  # fmt: skip
"""Operation -> when its result on CUDA depends on the order of additions, unless torch is asked for determinism."""


def has_no_deterministic_form(operator: Any, sample: Sample) -> bool:
    return _holds(REFUSED, operator, sample)


def needs_the_switch(operator: Any, sample: Sample) -> bool:
    return _holds(SWITCHED, operator, sample)


def _holds(table: Mapping[str, Condition], operator: Any, sample: Sample) -> bool:
    space, _, name = operator.name().partition("::")
    condition = table.get(name.partition(".")[0]) if space == "aten" else None
    if condition is None:
        return False
    names = [argument.name for argument in operator_schema(operator).arguments]
    return condition({**dict(zip(names, sample.args, strict=False)), **sample.kwargs})


def is_refused_here(operator: Any, sample: Sample) -> bool:
    """Does torch refuse this call, on its own device, where determinism is demanded? The call is made once more."""
    before, warned = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        sample.copied().call(operator)
    except Exception as error:  # noqa: BLE001 - only this one error of torch is asked for
        return NOT_DETERMINISTIC in str(error)
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warned)
    return False
