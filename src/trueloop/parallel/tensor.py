"""tp: tensor-parallel linear layers, each process computing a part of the features.

A pair of linear layers with only elementwise functions between them can be split: the first by its outputs (column),
the second by its inputs (row); the outputs of the second are summed. Such pairs are found in an nn.Sequential. For
other models the recipe names the layers (`tensor_plan`), and `engine/parallel_selfcheck.py` compares the outputs
before the training.

One layer that gives queries, keys and values together (`qkv`) is split by its outputs like any other, but these are
gathered: the heads of a process are in three places of them. The number of heads that its module knows is divided.

Where activations are replicated, dropout draws the same mask on all processes of a group; between the layers of a pair
each process takes its part of one process's mask. Dropout inside torch's attention draws the same mask for each
process's heads.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, final

import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from trueloop.errors import BadRecipe
from trueloop.torch_private.modules import has_forward_hooks, own_modules

__all__ = ["STYLES", "TensorPlan", "plan_tensors", "split_layers"]

STYLES: Final = ("column", "row", "qkv")  # A layer split by its outputs, by its inputs, by the heads of attention
HEADS: Final = ("heads", "num_heads", "n_head", "n_heads", "num_attention_heads")  # What modules call their number
# Elementwise layers: they may stand between the two layers of a pair
SINGLE_NUMBERS: Final = (
    nn.CELU, nn.Dropout, nn.ELU, nn.GELU, nn.Hardswish, nn.Hardtanh, nn.Identity, nn.LeakyReLU, nn.Mish, nn.ReLU,
    nn.ReLU6, nn.SELU, nn.Sigmoid, nn.SiLU, nn.Softplus, nn.Tanh,
)  # fmt: skip
SHOWN: Final = 3  # Names in a sentence; more are counted


@final
@dataclass(frozen=True, slots=True)
class TensorPlan:
    """Which layers are split, and how."""

    styles: Mapping[str, str]  # Name of a linear layer -> column | row
    between: Sequence[str]  # Dropouts that see a part of the numbers only
    left: Sequence[str]  # Linear layers that every process computes by itself

    def account(self, ranks: int) -> str:
        kept = f"; replicated: {_few(self.left)}" if self.left else ""
        total = len(self.styles) + len(self.left)
        return f"{len(self.styles)} of {total} linear layers split over {ranks} ({_few(list(self.styles))}){kept}"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


def plan_tensors(model: nn.Module, ranks: int, asked: Mapping[str, str]) -> TensorPlan:
    """As asked, or as found. Raises BadRecipe where there is nothing to split, or a layer that cannot be."""
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    doubts: list[str] = []
    styles = _asked(model, ranks, asked) if asked else dict(_found(model, ranks, doubts))
    if not styles:
        why = f" ({doubts[0]})" if doubts else ""
        raise BadRecipe(
            "parallel=tp splits pairs of linear layers of an nn.Sequential with only activations between them, and "
            f"{type(model).__name__} has no pair that {ranks} processes can share{why}. Nothing was run: name the "
            "layers, as in tensor_plan={'blocks.*.up': 'column', 'blocks.*.down': 'row'}, or use parallel=fsdp."
        )
    return TensorPlan(styles, list(_dropouts(model, styles)), [name for name in linear if name not in styles])


# -- as found --


def _found(model: nn.Module, ranks: int, doubts: list[str]) -> Iterator[tuple[str, str]]:
    uses = Counter(id(parameter) for _, parameter in model.named_parameters(remove_duplicate=False))
    times = Counter(id(module) for _, module in model.named_modules(remove_duplicate=False))
    for name, module in model.named_modules():
        if type(module) is not nn.Sequential or "forward" in vars(module):
            continue
        first: tuple[str, nn.Linear] | None = None
        for key, child in own_modules(module).items():
            at = f"{name}.{key}" if name else key
            if type(child) is nn.Linear and _is_plain(child, uses):
                if first is not None and (why := _why_not(first[1].out_features, ranks)):
                    doubts.append(f"{first[0]} gives {why}")
                    first = (at, child)
                elif first is not None:
                    yield from ((first[0], "column"), (at, "row"))
                    first = None
                else:
                    first = (at, child)
            elif type(child) not in SINGLE_NUMBERS or "forward" in vars(child) or _is_shared_dropout(child, times):
                first = None  # a dropout that is elsewhere too would draw for a part of the numbers there as well


def _is_shared_dropout(layer: nn.Module | None, times: Counter[int]) -> bool:
    return type(layer) is nn.Dropout and times[id(layer)] > 1


def _is_plain(layer: nn.Linear, uses: Counter[int]) -> bool:
    """Its own weights alone, and nobody listens to what it sees."""
    alone = all(uses[id(parameter)] == 1 for parameter in layer.parameters())
    return alone and "forward" not in vars(layer) and not has_forward_hooks(layer)


def _why_not(numbers: int, ranks: int) -> str:
    return f"{numbers} numbers, which {ranks} processes cannot share evenly" if numbers % ranks else ""


# -- as asked --


def _asked(model: nn.Module, ranks: int, asked: Mapping[str, str]) -> dict[str, str]:
    styles: dict[str, str] = {}
    for pattern, style in asked.items():
        matching = [(name, module) for name, module in model.named_modules() if fnmatchcase(name, pattern)]
        if not matching:
            known = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
            raise BadRecipe(f"tensor_plan: no layer is called {pattern!r}. Nothing was run: there are {_few(known)}.")
        for name, module in matching:
            styles[name] = style
            _refuse(name, module, style, ranks)
    return styles


def _refuse(name: str, module: nn.Module, style: str, ranks: int) -> None:
    if not isinstance(module, nn.Linear):
        raise BadRecipe(f"tensor_plan splits {name}, a {type(module).__name__}, not an nn.Linear. Nothing was run.")
    numbers = module.in_features if style == "row" else module.out_features // (3 if style == "qkv" else 1)
    if style == "qkv" and module.out_features % 3:
        raise BadRecipe(
            f"tensor_plan splits {name} as qkv, and its {module.out_features} outputs are not three equal parts: "
            "queries, keys and values. Nothing was run: split three layers by column, or leave it out."
        )
    if why := _why_not(numbers, ranks):
        raise BadRecipe(f"tensor_plan splits {name} by {style}, and that is {why}. Nothing was run: leave it out.")


def _dropouts(model: nn.Module, styles: Mapping[str, str]) -> Iterator[str]:
    """In an nn.Sequential, between a layer split by columns and the next one, split by rows."""
    for name, module in model.named_modules():
        if not isinstance(module, nn.Sequential):
            continue
        inside = False
        for key, child in module.named_children():
            at = f"{name}.{key}" if name else key
            if at in styles:
                inside = styles[at] == "column"
            elif inside and type(child) is nn.Dropout:
                yield at


# -- done --


def split_layers(model: nn.Module, plan: TensorPlan, mesh: DeviceMesh, *, apart: bool = False) -> None:
    """In place. `apart`: answers in memory of their own, which fsdp needs where the model changes them in place."""
    ways = {"column": ColwiseParallel(), "row": RowwiseParallel()}
    ways["qkv"] = ColwiseParallel(output_layouts=Replicate(), use_local_output=False)
    parallelize_module(model, mesh, {name: ways[style] for name, style in plan.styles.items()})
    for name in [name for name, style in plan.styles.items() if style == "qkv"]:
        _divide_heads(model, name, mesh.size())
        model.get_submodule(name).register_forward_hook(_OwnHeads(mesh.get_local_rank(), mesh.size()))
    for name in [name for name, style in plan.styles.items() if apart and style == "row"]:
        model.get_submodule(name).register_forward_hook(lambda *call: call[-1].clone())
    for name in plan.between:
        dropout = model.get_submodule(name)
        assert isinstance(dropout, nn.Dropout)
        dropout.forward = _PartOfDropout(dropout, mesh.get_local_rank(), mesh.size())  # type: ignore[assignment]


def _divide_heads(model: nn.Module, name: str, ranks: int) -> None:
    """In the module that holds the layer. The comparison of outputs catches one that counts its heads otherwise."""
    module = model.get_submodule(name.rpartition(".")[0])
    for attribute in HEADS:
        heads = getattr(module, attribute, None)
        if isinstance(heads, int):
            if heads % ranks:
                raise BadRecipe(
                    f"tensor_plan splits {name} as qkv: {ranks} processes cannot share {heads} heads evenly. Nothing "
                    "was run: use a number of processes that divides the heads, or leave it out."
                )
            setattr(module, attribute, heads // ranks)


@final
class _OwnHeads:
    """After a fused projection: queries, keys and values of this process's heads, out of those of all."""

    def __init__(self, rank: int, ranks: int) -> None:
        self.rank, self.ranks = rank, ranks

    def __call__(self, _: nn.Module, __: object, answer: DTensor) -> Tensor:
        # What the other heads add to the gradient comes from the processes that have them.
        everything: Tensor = answer.to_local(grad_placements=[Partial()])
        parts = everything.reshape(*everything.shape[:-1], 3, -1)
        return parts.chunk(self.ranks, -1)[self.rank].flatten(-2)


@final
class _PartOfDropout:
    """In place of a dropout's forward: what one process would draw for all numbers, and of that the part for these."""

    def __init__(self, dropout: nn.Dropout, rank: int, ranks: int) -> None:
        self.dropout, self.rank, self.ranks = dropout, rank, ranks

    def __call__(self, inputs: Tensor) -> Tensor:
        if not self.dropout.training or not self.dropout.p:
            return inputs
        drawn = F.dropout(inputs.new_ones(*inputs.shape[:-1], inputs.shape[-1] * self.ranks), self.dropout.p)
        return inputs * drawn.chunk(self.ranks, -1)[self.rank]
