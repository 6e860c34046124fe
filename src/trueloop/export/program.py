"""What is exported: raw tensors in, what the recipe does to them, the model in evaluation mode, raw scores out."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from trueloop.data.source import Prepare
from trueloop.engine.unprojected import Unprojected
from trueloop.errors import CannotExport

__all__ = ["Exportable", "Layout", "Observed", "Program", "exportable", "is_tokens", "layout_of", "scores_of"]


@dataclass(frozen=True, slots=True)
class Layout:
    """How tensors stand together: one alone, or several in a dict, a tuple or a list."""

    names: tuple[str, ...]
    kind: str
    """tensor | dict | tuple | list."""

    def joined(self, tensors: Sequence[Any]) -> Any:
        match self.kind:
            case "tensor":
                return tensors[0]
            case "dict":
                return dict(zip(self.names, tensors, strict=True))
            case "list":
                return list(tensors)
            case _:
                return tuple(tensors)

    def parted(self, value: Any) -> tuple[Tensor, ...]:
        match self.kind:
            case "tensor":
                return (value,)
            case "dict":
                return tuple(value[name] for name in self.names)
            case _:
                return tuple(value)


def layout_of(value: Any, name: str) -> Layout:
    """`name`: what a tensor is called that has no name. Raises CannotExport for what no target can take."""
    if isinstance(value, Tensor):
        return Layout((name,), "tensor")
    if (
        isinstance(value, dict)
        and value
        and all(isinstance(key, str) and isinstance(item, Tensor) for key, item in value.items())
    ):
        return Layout(tuple(value), "dict")
    if (
        isinstance(value, (tuple, list))
        and value
        and all(isinstance(item, Tensor) for item in value)
        and not hasattr(value, "_fields")
    ):
        return Layout(
            tuple(f"{name}_{number}" for number in range(len(value))), "list" if isinstance(value, list) else "tuple"
        )
    raise CannotExport(
        f"The model's {name} is a {type(value).__name__}, which no target knows. Nothing was exported: let it be a tensor, or a dict "
        "(names as keys), tuple or list of tensors."
    )


def is_tokens(tensor: Tensor) -> bool:
    """Rows of whole numbers: what may be a text, and so of any length. `Program.shortened` asks the model whether it
    is."""
    return tensor.dim() == 2 and tensor.dtype in (torch.int32, torch.int64)


def _cut(tokens: Tensor, *, half: bool) -> Tensor:
    length = tokens.shape[1]
    return tokens[:, : max(1, length // 2 if half else length - 1)]


def scores_of(output: Any) -> Any:
    """As a task sees it; an answer that is not multiplied out is, for nobody outside knows what it is."""
    return output.scores() if isinstance(output, Unprojected) else output


@final
class Program(nn.Module):
    """forward(*raw tensors) -> tuple of tensors."""

    def __init__(self, model: nn.Module, prepare: Prepare | None, inputs: Layout, outputs: Layout) -> None:
        super().__init__()
        self.model, self.prepare = model, prepare
        self.layouts = inputs, outputs

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        inputs = self.layouts[0].joined(tensors)
        output = self.model(inputs if self.prepare is None else self.prepare(inputs))
        return self.layouts[1].parted(scores_of(output))

    @torch.no_grad()
    def answer(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Of the model itself, as it is: what every target must answer too. The caller's tensors stay as they are."""
        answered: tuple[Tensor, ...] = self(*(tensor.clone() for tensor in tensors))
        return tuple(tensor.detach().clone() for tensor in answered)

    def shortened(self, raw: Sequence[Tensor]) -> list[Tensor] | None:
        """The same rows of tokens, shorter by half or by one; None: there are none, or the model takes no other
        length."""
        for half in (True, False):
            cut = [_cut(tensor, half=half) if is_tokens(tensor) else tensor for tensor in raw]
            try:
                if any(a.shape != b.shape for a, b in zip(cut, raw, strict=True)) and self.answer(cut):
                    return cut
            except Exception:  # noqa: BLE001 - whatever a model raises, the answer is that it takes no such length
                continue
        return None


# -- layers that targets do not know --


def exportable(program: Program) -> Program:
    """A copy in which bags of embeddings are said as lookups and sums, which every target knows and whose batch may
    have any size."""
    made = copy.deepcopy(program)
    for module in made.modules():
        for name, child in module.named_children():
            if (
                isinstance(child, nn.EmbeddingBag)
                and child.mode in ("sum", "mean")
                and child.padding_idx is None
                and not child.max_norm
            ):
                setattr(module, name, _Bag(child))
    return made


@final
class _Bag(nn.Module):
    """An `nn.EmbeddingBag` of rows of one length each."""

    def __init__(self, bag: nn.EmbeddingBag) -> None:
        super().__init__()
        self.weight, self.mode = bag.weight, bag.mode

    def forward(self, rows: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        if rows.dim() != 2:
            return F.embedding_bag(rows, self.weight, offsets, mode=self.mode, per_sample_weights=per_sample_weights)
        vectors = F.embedding(rows, self.weight)
        if per_sample_weights is not None:
            vectors = vectors * per_sample_weights.unsqueeze(-1)
        return vectors.sum(1) if self.mode == "sum" else vectors.mean(1)


# -- looking inside --


@final
class Observed(nn.Module):
    """The same program, which answers with what its layers give, in the order in which they are called."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        self.layouts = program.layouts
        self.calls: list[str] = []
        """Names of the layers of the last forward."""

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        seen: list[Tensor] = []
        names: list[str] = []
        handles = _watched(self.program.model, seen, names)
        try:
            self.program(*tensors)
        finally:
            for handle in handles:
                handle.remove()
        self.calls[:] = names
        return tuple(seen)

    def name(self, outputs: int) -> None:
        """How many layers answer, for targets that want a name for each."""
        self.layouts = self.layouts[0], Layout(tuple(f"layer_{number}" for number in range(outputs)), "tuple")

    @torch.no_grad()
    def answer(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        answered: tuple[Tensor, ...] = self(*(tensor.clone() for tensor in tensors))
        return answered


def _watched(model: nn.Module, seen: list[Tensor], names: list[str]) -> list[Any]:
    """Collect what the layers give; returns handles to remove."""

    def hook(name: str) -> Any:
        def look(module: nn.Module, given: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.is_floating_point() and not output.is_nested:
                seen.append(output.clone())  # a layer after it may write into it
                names.append(name)

        return look

    leaves = [(name, module) for name, module in model.named_modules() if not any(module.children())]
    return [module.register_forward_hook(hook(name)) for name, module in leaves]


Exportable = Program | Observed
"""What an exporter writes: both take raw tensors, and know how these stand together."""
