"""Input and output shapes of each layer, in the order of their calls."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from trueloop.engine.call_model import call_model
from trueloop.engine.evaluate import evaluating
from trueloop.inspection.numbers import dtype_of
from trueloop.measure.model import restored_buffers
from trueloop.results.document import Column, Table

__all__ = ["layers_of", "shape_in_words"]

COLUMNS = (
    *(Column("layer", "name"), Column("class"), Column("inputs", "shape"), Column("outputs", "shape")),
    *(Column("parameters", "count"), Column("calls", "count")),
)


@dataclass(slots=True)
class _Call:
    name: str
    module: nn.Module
    inputs: str
    outputs: str = ""
    calls: int = 1


def layers_of(model: nn.Module, inputs: Any) -> tuple[Table, str]:
    """One forward in eval mode that changes nothing, and a remark about it."""
    calls: dict[nn.Module, _Call] = {}
    names = {module: name or "(the model)" for name, module in model.named_modules()}

    def enter(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        if module in calls:
            calls[module].calls += 1
        else:
            calls[module] = _Call(names[module], module, shape_in_words([*given, *named.values()]))

    def leave(module: nn.Module, given: Any, output: Any) -> None:
        calls[module].outputs = calls[module].outputs or shape_in_words(output)

    handles = [module.register_forward_pre_hook(enter, with_kwargs=True) for module in names]
    handles += [module.register_forward_hook(leave) for module in names]
    try:
        with evaluating(model), restored_buffers(model):
            call_model(model, inputs)
    finally:
        for handle in handles:
            handle.remove()
    rows = tuple(
        (each.name, type(each.module).__name__, each.inputs, each.outputs, _own(each.module), each.calls)
        for each in calls.values()
    )
    note = f"For a batch of {shape_in_words(inputs)}, in eval mode; parameters without those of inner layers."
    return Table("Shapes through the layers", COLUMNS, rows, note), _uncalled(calls, names)


def _own(module: nn.Module) -> int:
    return sum(each.numel() for each in module.parameters(recurse=False))


def _uncalled(calls: dict[nn.Module, _Call], names: dict[nn.Module, str]) -> str:
    """Layers with parameters that the forward never called; their weights may be used directly."""
    idle = [name for module, name in names.items() if module not in calls and _own(module)]
    if not idle:
        return ""
    shown = ", ".join(idle[:5]) + (" ..." if len(idle) > 5 else "")
    return f"Not called for this batch, though they hold parameters: {shown}. Their weights may still be used directly."


def shape_in_words(value: Any) -> str:
    """'64x1x8x8', with the dtype if it is not float32; dicts, lists and tuples by their contents."""
    if isinstance(value, Tensor):
        shape = "x".join(map(str, value.shape)) or "scalar"
        return shape if dtype_of(value) == "float32" else f"{shape} {dtype_of(value)}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shape_in_words(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        inside = [shape_in_words(item) for item in value]
        return inside[0] if len(inside) == 1 else f"({', '.join(inside)})"
    return "-" if value is None else type(value).__name__
