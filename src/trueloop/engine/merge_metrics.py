"""torchmetrics objects of several processes, merged into one: state by state, by the reduction that each state names.

torchmetrics can synchronize by itself, but hangs where a process has no batch, and knows only the default group. Here
the objects are gathered, those without a batch are left out, and the rest are merged in this process.
"""

from typing import Any

import torch
from torch import Tensor, nn

from trueloop.data.source import map_tensors
from trueloop.errors import BadRecipe
from trueloop.parallel.peers import Peers

__all__ = ["merged"]


def merged(name: str, metric: Any, updated: bool, peers: Peers) -> Any:
    """One object with the states of all processes, on this process's CPU. It synchronizes nothing itself."""
    parts = list(metric.modules()) if isinstance(metric, nn.Module) else []
    if not any(_reductions(part) for part in parts):
        raise BadRecipe(
            f"The metric {name!r} is a {type(metric).__name__}, and its states cannot be merged over {peers.world} "
            "processes: use a torchmetrics object, or a function that returns two sums (numerator, denominator)."
        )
    gathered = [each for each, has_batch in peers.gather((metric.cpu(), updated)) if has_batch]
    first = gathered[0] if gathered else metric
    for same in zip(*(each.modules() for each in gathered), strict=True):
        _merge(same)
    for part in first.modules():
        if _reductions(part):
            part.distributed_available_fn = _nobody_else
    return first


def _nobody_else() -> bool:
    return False


def _reductions(part: nn.Module) -> dict[str, Any]:
    found: dict[str, Any] = getattr(part, "_reductions", None) or {}
    return found


def _merge(same: tuple[nn.Module, ...]) -> None:
    """Into the first of the same metric of several processes."""
    if len(same) < 2:
        return
    for state, reduction in _reductions(same[0]).items():
        values = [getattr(each, state) for each in same]
        if isinstance(values[0], Tensor):
            together: Any = torch.stack([map_tensors(value, torch.detach) for value in values])
        else:
            together = [item for value in values for item in value]
        reduced = reduction(together) if reduction is not None and len(together) else together
        setattr(same[0], state, reduced)
    same[0].__dict__["_computed"] = None
