"""A model's parameters and buffers: names, shapes, dtypes, devices, counts, tied and trainable ones."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from trueloop.inspection.layers import layers_of
from trueloop.inspection.numbers import dtype_counts, dtype_of, same_storage
from trueloop.results.document import Column, Document, Facts, Part, Table

__all__ = ["inspect_model"]

COLUMNS = (
    *(Column("name", "name"), Column("kind"), Column("shape", "shape"), Column("dtype"), Column("device")),
    *(Column("elements", "count"), Column("trainable", "flag"), Column("tied with", "name")),
)


def inspect_model(model: nn.Module, inputs: Any = None, title: str = "", notes: tuple[str, ...] = ()) -> Document:
    """`inputs`: a batch, to show the shapes through the layers."""
    parts: list[Part] = [_totals(model), _table(model)]
    if inputs is not None:
        layers, remark = layers_of(model, inputs)
        parts.append(layers)
        notes = (*notes, *([remark] if remark else []))
    return Document(title or type(model).__name__, tuple(parts), (*notes, *_remarks(model)))


def _held(model: nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Every name, also of tied tensors."""
    return dict(model.named_parameters(remove_duplicate=False)), dict(model.named_buffers(remove_duplicate=False))


def _table(model: nn.Module) -> Table:
    parameters, buffers = _held(model)
    together = same_storage({**parameters, **buffers})
    unsaved = {name for name in buffers if name not in model.state_dict(keep_vars=True)}
    rows = []
    for name, tensor in (*parameters.items(), *buffers.items()):
        kind = "parameter" if name in parameters else "buffer, not saved" if name in unsaved else "buffer"
        trainable = tensor.requires_grad if name in parameters else None
        about = (tuple(tensor.shape), dtype_of(tensor), str(tensor.device), tensor.numel())
        rows.append((name, kind, *about, trainable, together[name]))
    return Table("Parameters and buffers", COLUMNS, tuple(rows))


def _totals(model: nn.Module) -> Facts:
    parameters = list(model.parameters())  # tied ones count once
    buffers = list(model.buffers())
    learn = sum(each.numel() for each in parameters if each.requires_grad)
    total = sum(each.numel() for each in parameters)
    size = sum(each.numel() * each.element_size() for each in (*parameters, *buffers))
    values = {
        "model": type(model).__name__,
        "modules": sum(1 for _ in model.modules()),
        "parameters": f"{total:,} elements in {len(parameters):,} tensors",
        "trainable": f"{learn:,}" + (f"; {total - learn:,} are frozen" if learn != total else ""),
        "buffers": f"{sum(each.numel() for each in buffers):,} elements in {len(buffers):,} tensors",
        "memory": f"{size / 1e6:,.2f} MB",
        "dtypes": dtype_counts((*parameters, *buffers)),
        "devices": ", ".join(sorted({str(each.device) for each in (*parameters, *buffers)})),
    }
    return Facts("", values)


def _remarks(model: nn.Module) -> Iterator[str]:
    parameters = dict(model.named_parameters())
    if not parameters:
        yield (
            "The model has no parameters: layers in a plain list or dict do not count; use nn.ModuleList or "
            "nn.ModuleDict."
        )
    elif not any(each.requires_grad for each in parameters.values()):
        yield "No parameter is trainable: an optimizer would have nothing to do."
    if len({str(each.device) for each in parameters.values()}) > 1:
        yield "The parameters are on several devices."
