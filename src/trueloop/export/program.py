"""The program that is exported: raw tensors -> the recipe's `prepare` -> the model in evaluation mode -> raw scores."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
import torch.nn.functional as F  # noqa: N812 - the usual name
from torch import Tensor, nn

from trueloop.data.source import Prepare
from trueloop.engine.call_model import call_model
from trueloop.engine.unprojected import Unprojected
from trueloop.errors import CannotExport

__all__ = ["Exportable", "LayerOutputs", "Layout", "Program", "exportable", "is_tokens", "layout_of"]
__all__ += ["nested_encoders", "scores_of"]


@dataclass(frozen=True, slots=True)
class Layout:
    """How the tensors of a value are arranged: a single one, or several in a dict, tuple or list."""

    names: tuple[str, ...]
    kind: str  # tensor | dict | tuple | list

    def join(self, tensors: Sequence[Any]) -> Any:
        match self.kind:
            case "tensor":
                return tensors[0]
            case "dict":
                return dict(zip(self.names, tensors, strict=True))
            case _:
                return list(tensors) if self.kind == "list" else tuple(tensors)

    def split(self, value: Any) -> tuple[Tensor, ...]:
        match self.kind:
            case "tensor":
                return (value,)
            case "dict":
                return tuple(value[name] for name in self.names)
            case _:
                return tuple(value)


def layout_of(value: Any, name: str) -> Layout:
    """`name`: for tensors without one. Raises CannotExport for a type that no target supports."""
    if isinstance(value, Tensor):
        return Layout((name,), "tensor")
    items = list(value.values() if isinstance(value, dict) else value) if isinstance(value, (dict, tuple, list)) else []
    if items and all(isinstance(item, Tensor) for item in items) and not hasattr(value, "_fields"):
        if not isinstance(value, dict):
            names = tuple(f"{name}_{at}" for at in range(len(items)))
            return Layout(names, "list" if isinstance(value, list) else "tuple")
        if all(isinstance(key, str) for key in value):
            return Layout(tuple(value), "dict")
    why = f"The model's {name} has type {type(value).__name__}, which no target supports. Nothing was exported:"
    raise CannotExport(f"{why} use a tensor, or a dict with string keys, tuple or list of tensors.")


def is_tokens(tensor: Tensor) -> bool:
    """Rows of integers: possibly text, of any length. `Program.shorten` tries whether the model accepts that."""
    return tensor.dim() == 2 and tensor.dtype in (torch.int32, torch.int64)


def scores_of(output: Any) -> Any:
    """The output as a tensor: a deferred projection (`Unprojected`) is computed; of an output with a loss, as models of
    Hugging Face return it, the logits."""
    if isinstance(output, Unprojected):
        return output.scores()
    return output.logits if isinstance(getattr(output, "logits", None), Tensor) else output


@final
class Program(nn.Module):
    """forward(*raw tensors) -> tuple of tensors."""

    def __init__(self, model: nn.Module, prepare: Prepare | None, inputs: Layout, outputs: Layout) -> None:
        super().__init__()
        self.model, self.prepare = model, prepare
        self.layouts = inputs, outputs

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return self.layouts[1].split(scores_of(call_model(self.model, self.prepared(tensors))))

    def prepared(self, tensors: Sequence[Tensor]) -> Any:
        """The inputs of the model."""
        inputs = self.layouts[0].join(tensors)
        return inputs if self.prepare is None else self.prepare(inputs)

    @torch.no_grad()
    def answer(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The model's own outputs: the reference for every target. The caller's tensors are not modified."""
        outputs: tuple[Tensor, ...] = self(*(tensor.clone() for tensor in tensors))
        return tuple(tensor.detach().clone() for tensor in outputs)

    def shorten(self, raw: Sequence[Tensor]) -> list[Tensor] | None:
        """The same token rows at half the length, or one shorter. None: no tokens, or no other length is accepted."""
        for half in (True, False):
            cut = [_cut(tensor, half=half) if is_tokens(tensor) else tensor for tensor in raw]
            try:
                if any(a.shape != b.shape for a, b in zip(cut, raw, strict=True)) and self.answer(cut):
                    return cut
            except Exception:  # noqa: BLE001 - any error of the model means that it does not accept this length
                continue
        return None


def _cut(tokens: Tensor, *, half: bool) -> Tensor:
    length = tokens.shape[1]
    return tokens[:, : max(1, length // 2 if half else length - 1)]


def exportable(program: Program) -> Program:
    """A copy with its `nn.EmbeddingBag`s as lookup and sum: every target supports these, for any batch size. Without
    nested tensors, which no target has: `nn.TransformerEncoder` uses them for its padding mask in eval mode."""
    made = copy.deepcopy(program)
    for module in made.modules():
        if isinstance(module, nn.TransformerEncoder):
            module.use_nested_tensor = module.enable_nested_tensor = False
        for name, child in module.named_children():
            plain = isinstance(child, nn.EmbeddingBag) and child.padding_idx is None and not child.max_norm
            if plain and child.mode in ("sum", "mean"):
                setattr(module, name, _EmbeddingBag(child))
    return made


def nested_encoders(model: nn.Module) -> list[str]:
    """The encoders that use nested tensors if they get a padding mask."""
    named = model.named_modules()
    return [name for name, module in named if isinstance(module, nn.TransformerEncoder) and module.use_nested_tensor]


@final
class _EmbeddingBag(nn.Module):
    """An `nn.EmbeddingBag` for rows of equal length."""

    def __init__(self, bag: nn.Module) -> None:
        super().__init__()
        assert isinstance(bag, nn.EmbeddingBag)
        self.weight, self.mode = bag.weight, bag.mode

    def forward(self, rows: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        if rows.dim() != 2:
            return F.embedding_bag(rows, self.weight, offsets, mode=self.mode, per_sample_weights=per_sample_weights)
        vectors = F.embedding(rows, self.weight)
        if per_sample_weights is not None:
            vectors = vectors * per_sample_weights.unsqueeze(-1)
        return vectors.sum(1) if self.mode == "sum" else vectors.mean(1)


@final
class LayerOutputs(nn.Module):
    """The same program, returning the outputs of its layers in call order."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        self.layouts = program.layouts
        self.calls: list[str] = []  # Names of the layers of the last forward

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        seen: list[Tensor] = []
        names: list[str] = []

        def hook(name: str) -> Any:
            def record(module: nn.Module, inputs: Any, output: Any) -> None:
                if isinstance(output, Tensor) and output.is_floating_point() and not output.is_nested:
                    seen.append(output.clone())  # a later layer may write in place
                    names.append(name)

            return record

        leaves = [(name, module) for name, module in self.program.model.named_modules() if not any(module.children())]
        handles = [module.register_forward_hook(hook(name)) for name, module in leaves]
        try:
            self.program(*tensors)
        finally:
            for handle in handles:
                handle.remove()
        self.calls[:] = names
        return tuple(seen)

    def set_outputs(self, count: int) -> None:
        """Targets need a name for each output."""
        self.layouts = self.layouts[0], Layout(tuple(f"layer_{number}" for number in range(count)), "tuple")

    @torch.no_grad()
    def answer(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        outputs: tuple[Tensor, ...] = self(*(tensor.clone() for tensor in tensors))
        return outputs


Exportable = Program | LayerOutputs  # What an exporter writes
