"""Sharded tensors (DTensor) and plain ones: the local shard, the full tensor, the gradient norm over shards.

Elementwise work is done on the local shards as plain tensors: it needs no communication.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor, Shard

from trueloop.parallel.gradient import shorten
from trueloop.torch_private.foreach import foreach_norm

__all__ = ["clip_parts", "divided", "divided_form", "in_one_form", "norm_of_parts", "own", "part_of", "where", "whole"]

PART: Final = "part_of"  # In a group of an optimizer that was divided: the number of the group it is a part of, and,
PLACES: Final = "places"  # the places of its parameters there


def own(tensor: Tensor) -> Tensor:
    """What this process holds of it, in the same memory."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def where(tensor: Tensor) -> tuple[tuple[str, int], ...]:
    """Which part it holds: (dimension of the mesh, coordinate) for each dimension that splits it; empty: all."""
    if not isinstance(tensor, DTensor):
        return ()
    mesh = tensor.device_mesh
    names = mesh.mesh_dim_names or tuple(map(str, range(mesh.ndim)))
    return tuple((names[each], mesh.get_local_rank(each)) for each in _split_over(tensor))


def _split_over(tensor: DTensor) -> list[int]:
    return [number for number, placement in enumerate(tensor.placements) if not placement.is_replicate()]


# -- gradients --


@torch.no_grad()
def norm_of_parts(parameters: Sequence[Tensor], device: torch.device) -> Tensor:
    """The gradient norm over shards: squares are summed only over processes that hold different shards."""
    split: dict[tuple[dist.ProcessGroup, ...], list[Tensor]] = {}
    for parameter in parameters:
        if parameter.grad is not None:
            split.setdefault(_groups(parameter.grad), []).append(own(parameter.grad))
    total = torch.zeros((), dtype=torch.float64, device=device)
    for groups, gradients in split.items():
        square = torch.stack(foreach_norm(gradients)).double().square().sum().to(device)  # offload: from the host
        for group in groups:
            dist.all_reduce(square, group=group)
        total += square
    return total.sqrt().float()


def _groups(gradient: Tensor) -> tuple[dist.ProcessGroup, ...]:
    if not isinstance(gradient, DTensor):
        return ()
    return tuple(gradient.device_mesh.get_group(each) for each in _split_over(gradient))


@torch.no_grad()
def clip_parts(parameters: Sequence[Tensor], norm: Tensor, limit: float) -> None:
    gradients = [own(parameter.grad) for parameter in parameters if parameter.grad is not None]
    shorten(gradients, norm.to(gradients[0].device) if gradients else norm, limit)


# -- states --


def whole(value: Any) -> Any:
    """Every tensor in it put together from its parts. All processes call this together, in the same order."""
    if isinstance(value, DTensor):
        return _on_its_mesh(value).full_tensor()
    if isinstance(value, Mapping):
        return {key: whole(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(whole(item) for item in value)
    return value


def _on_its_mesh(tensor: DTensor) -> DTensor:
    """With offload a part is on the host, and the processes of a device's mesh can send only what is on the device."""
    local, mesh = tensor.to_local(), tensor.device_mesh
    if local.device.type == mesh.device_type:
        return tensor
    there = local.to(mesh.device_type)
    return DTensor.from_local(there, mesh, tensor.placements, shape=tensor.shape, stride=tensor.stride())


def part_of(value: Any, like: Any) -> Any:
    """The shard of a full tensor that this process holds of `like`; any other value as it is. No communication."""
    if not isinstance(like, DTensor) or not isinstance(value, Tensor) or value.shape != like.shape:
        return value
    part = value
    # From the last dimension of the mesh to the first: layers are divided first, then sharded.
    for number in reversed(_split_over(like)):
        placement, mesh = like.placements[number], like.device_mesh
        assert isinstance(placement, Shard) or placement.is_shard()
        parts = part.chunk(mesh.size(number), dim=placement.dim)  # type: ignore[attr-defined]
        at = mesh.get_local_rank(number)
        part = parts[at] if at < len(parts) else part.narrow(placement.dim, 0, 0)  # type: ignore[attr-defined]
    made = torch.empty_like(like, dtype=value.dtype, requires_grad=False)
    own(made).copy_(part)
    return made


# -- an optimizer's groups --


def divided(groups: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Groups whose parameters are all whole, or all in parts over one mesh: torch's kernels take no mixture."""
    made: list[dict[str, Any]] = []
    for number, group in enumerate(groups):
        kinds: dict[Any, list[int]] = {}
        for place, parameter in enumerate(group["params"]):
            kinds.setdefault(parameter.device_mesh if isinstance(parameter, DTensor) else None, []).append(place)
        if len(kinds) < 2:
            made.append({**group, PART: number, PLACES: list(range(len(group["params"])))})
        else:
            for places in kinds.values():
                params = [group["params"][place] for place in places]
                made.append({**group, "params": params, PART: number, PLACES: places})
    return made if len(made) > len({group[PART] for group in made}) else [_plain(group) for group in made]


def _plain(group: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in group.items() if key not in (PART, PLACES)}


def _numbers(groups: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """Index of a parameter in the divided groups -> its index in the original groups."""
    sizes: dict[int, int] = {}
    for group in groups:
        sizes[group[PART]] = sizes.get(group[PART], 0) + len(group["params"])
    firsts = {number: sum(size for other, size in sizes.items() if other < number) for number in sizes}
    places = [(group[PART], *pair) for group in groups for pair in zip(group["params"], group[PLACES], strict=True)]
    return {each: firsts[part] + place for part, each, place in places}


def in_one_form(state: Mapping[str, Any]) -> dict[str, Any]:
    """An optimizer's state as if undivided, so that a checkpoint does not depend on the number of processes."""
    groups = state["param_groups"]
    if not any(PART in group for group in groups):
        return dict(state)
    numbers = _numbers(groups)
    merged: dict[int, dict[str, Any]] = {}
    for group in groups:
        into = merged.setdefault(group[PART], {**_plain(group), "params": []})
        into["params"] += [numbers[each] for each in group["params"]]
    for group in merged.values():
        group["params"].sort()
    values = {numbers[key]: value for key, value in state["state"].items()}
    return {"state": values, "param_groups": [merged[key] for key in sorted(merged)]}


def divided_form(state: Mapping[str, Any], groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The way back: a state in one form, for an optimizer whose own `state_dict` has these groups."""
    if not any(PART in group for group in groups):
        return dict(state)
    numbers = _numbers(groups)
    own_keys = ("params", PART, PLACES)
    options = [
        {**_plain(state["param_groups"][group[PART]]), **{key: group[key] for key in own_keys}} for group in groups
    ]
    values = {key: state["state"][number] for key, number in numbers.items() if number in state["state"]}
    return {"state": values, "param_groups": options}
