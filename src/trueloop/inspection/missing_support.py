"""What an operation does not have: a backward, a meta kernel, a deterministic form, an autocast rule, a vmap rule.

Each answer is read from the dispatcher's tables and from derivatives.yaml. Where the tables alone would call something
healthy a lack, the call is made once more on copies: with mixed dtypes, under FakeTensorMode, recording gradients.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.inspection.determinism import has_no_deterministic_form, is_refused_here, needs_the_switch
from trueloop.inspection.op_files import has_formula
from trueloop.inspection.op_table import entries
from trueloop.inspection.operation_log import OperationUse
from trueloop.op_claims.sample import Sample
from trueloop.torch_private.custom_ops import custom_definition, has_fake, registered_autograd, registered_vmap
from trueloop.torch_private.dispatch import fake_mode, operator_schema, pytree, vmap_without_loops
from trueloop.torch_private.dispatch_table import has_kernel

__all__ = ["KINDS", "Lack", "lacks_of"]

KINDS: Final = ("backward", "meta kernel", "deterministic form", "autocast rule", "vmap rule")
MAKES_TENSORS: Final = ("lift_fresh", "lift", "detach", "detach_", "alias")  # Nothing to batch, nothing to cast
VALUES_DECIDE: Final = ("DynamicOutputShapeException", "DataDependentOutputException")
"""Errors of FakeTensorMode for an operation whose shape or result depends on values: it has its rule there."""


@dataclass(frozen=True, slots=True)
class Lack:
    kind: str  # One of KINDS
    meaning: str  # For the user, in one clause


def lacks_of(use: OperationUse, owned: frozenset[int]) -> Iterator[Lack]:
    """`owned`: data pointers of the model's parameters and buffers, which keep their dtype under autocast."""
    if not use.backward and use.needs_gradient and (why := _no_backward(use)):
        yield Lack("backward", why)
    if not _has_meta(use):
        yield Lack("meta kernel", _by_custom(use, "torch.compile and torch.export stop here", "register_fake"))
    if why := _not_deterministic(use):
        yield Lack("deterministic form", why)
    if use.backward or not (use.places or use.layers):
        return  # autocast and vmap do not reach the engine's own operations
    if why := _no_autocast(use, owned):
        yield Lack("autocast rule", why)
    if not _has_vmap(use):
        yield Lack("vmap rule", _by_custom(use, "torch.vmap loops over the samples here, or raises", "register_vmap"))


def _by_custom(use: OperationUse, meaning: str, method: str) -> str:
    return f"{meaning}; add `{method}`" if custom_definition(use.name) is not None else meaning


# -- backward --


def _no_backward(use: OperationUse) -> str:
    """Why; empty: it has one, or a gradient makes no sense."""
    custom = custom_definition(use.name)
    if custom is not None:
        return (
            ""
            if registered_autograd(custom) or not _has_result(use)
            else "its backward raises; add `register_autograd`"
        )
    space, _, name = use.name.partition("::")
    if space == "aten" and has_formula(name):
        return ""
    node = _node_of(use)
    if node is None:
        return ""
    if node == "" or "WarnNotImplemented" in node:
        return "gradients end here: what it is computed from gets none on this path"
    return "its backward raises" if "NotImplemented" in node else ""


def _has_result(use: OperationUse) -> bool:
    kinds = [str(value.type) for value in operator_schema(use.operator).returns]
    return any("Tensor" in kind for kind in kinds)


def _node_of(use: OperationUse) -> str | None:
    """The grad_fn of one more call that records gradients; empty: it has none; None: the result has no gradient by
    nature (integers, views, writes), or the call fails."""
    try:
        with torch.enable_grad():
            sample = use.sample.copied().map(_with_gradient)
            given = {id(tensor) for tensor in sample.tensors()}
            result = sample.call(use.operator)
    except Exception:  # noqa: BLE001 - without a second call nothing is claimed
        return None
    made = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor) and _is_float(leaf)]
    fresh = [tensor for tensor in made if id(tensor) not in given]
    if not fresh or _is_factory(use.name):
        return None
    return next((tensor.grad_fn.name() for tensor in fresh if tensor.grad_fn is not None), "")


def _is_factory(name: str) -> bool:
    """`empty_like` and the like: their result does not depend on values."""
    base = name.partition("::")[2].partition(".")[0]
    return base.startswith("new_") or base.endswith("_like") or base in MAKES_TENSORS


def _with_gradient(tensor: Tensor) -> Tensor:
    """Not a leaf: an operation may write it."""
    return tensor.requires_grad_().clone() if _is_float(tensor) else tensor


def _is_float(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


# -- meta --


def _has_meta(use: OperationUse) -> bool:
    custom = custom_definition(use.name)
    if custom is not None:
        return has_fake(custom)
    entry = entries(use.name).get("Meta")
    if entry is not None and entry.kind != "backend fallback" and not entry.falls:
        return True
    try:
        with fake_mode() as mode:
            use.sample.map(mode.from_tensor).call(use.operator)
    except Exception as error:  # noqa: BLE001 - many kinds, by operation
        return type(error).__name__ in VALUES_DECIDE
    return True


# -- determinism --


def _not_deterministic(use: OperationUse) -> str:
    tensors = use.sample.tensors()
    on_cuda = any(tensor.is_cuda for tensor in tensors)
    if needs_the_switch(use.operator, use.sample):
        return ""  # what the user calls takes another way then, though this operation by itself may raise
    if tensors and use.name.startswith("aten::") and is_refused_here(use.operator, use.sample):
        where = tensors[0].device.type
        return f"`torch.use_deterministic_algorithms(True)` raises here on {where}; otherwise runs differ"
    if not on_cuda and has_no_deterministic_form(use.operator, use.sample):
        return "on CUDA two runs differ here, and `torch.use_deterministic_algorithms(True)` raises"
    return ""


# -- autocast --


def _no_autocast(use: OperationUse, owned: frozenset[int]) -> str:
    floats = use.sample.floats()
    device = floats[0].device.type.upper() if floats else ""
    key = f"Autocast{device}"
    if not floats or device not in ("CPU", "CUDA") or any(has_kernel(name, key) for name in {*use.outer, use.name}):
        return ""
    if custom_definition(use.name) is not None or not use.name.startswith("aten::"):
        # An own kernel is not called with a dtype that it may not check.
        custom = "it gets its inputs in whatever dtype the operation before left them"
        return _by_custom(use, custom, "register_autocast")
    if torch.Tag.pointwise in use.operator.tags or _is_view(use.operator) or _is_factory(use.name):
        return ""
    for mixed in _mixed(use.sample, owned):
        try:
            mixed.call(use.operator)
        except (RuntimeError, NotImplementedError, TypeError):  # whatever it raises is the answer
            return f"under autocast on {device.lower()} inputs of different dtypes raise"
    return ""


def _is_view(operator: Any) -> bool:
    aliases = [value.alias_info for value in operator_schema(operator).returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def _mixed(sample: Sample, owned: frozenset[int]) -> Iterator[Sample]:
    """The dtypes that autocast can bring together: weights stay in float32, results of others are bfloat16 or not."""
    floats = [number for number, each in enumerate(sample.tensors()) if each.is_floating_point()]
    free = [number for number in floats if _is_free(sample.tensors()[number], owned)]
    weights_stay = [free] if free and len(free) < len(floats) else []
    one_at_a_time = [[number] for number in free] if len(free) > 1 else []
    for narrow in (*weights_stay, *one_at_a_time):
        mixed = sample.copied()
        for number in narrow:
            mixed = mixed.map_one(number, lambda tensor: tensor.to(torch.bfloat16))
        yield mixed


def _is_free(tensor: Tensor, owned: frozenset[int]) -> bool:
    return tensor.dtype == torch.float32 and tensor.untyped_storage().data_ptr() not in owned


# -- vmap --


def _has_vmap(use: OperationUse) -> bool:
    custom = custom_definition(use.name)
    if custom is not None:
        return registered_vmap(custom) or has_kernel(use.name.removesuffix(".default"), "FuncTorchBatched")
    base = use.name.partition("::")[2].partition(".")[0]
    if not use.sample.tensors() or base in MAKES_TENSORS:
        return True
    keys = ("FuncTorchBatched", "FuncTorchBatchedDecomposition", "CompositeImplicitAutograd")
    return any(has_kernel(name, key) for name in {*use.outer, use.name} for key in keys) or _runs_batched(use)


def _runs_batched(use: OperationUse) -> bool:
    """One more call, under vmap, of two copies: does torch take it without a loop?"""

    def batched(*tensors: Tensor) -> list[Tensor]:
        result = use.sample.replace(iter(tensors)).call(use.operator)
        return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]

    try:
        with vmap_without_loops():
            torch.vmap(batched, randomness="same")(*[torch.stack([each, each]) for each in use.sample.tensors()])
    except Exception:  # noqa: BLE001 - whatever it raises, there is no rule for it
        return False
    return True
