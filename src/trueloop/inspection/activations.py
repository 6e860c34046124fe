"""The output of one layer for one batch: its summary, and the tensors as a file."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn

from trueloop.checkpoint.tensor_files import load_numpy, load_torch
from trueloop.checkpoint.unreadable import why_unreadable
from trueloop.data.source import moved
from trueloop.engine.call_model import call_model
from trueloop.engine.evaluate import evaluating
from trueloop.engine.precision import Precision
from trueloop.errors import BadData, Misuse, did_you_mean
from trueloop.inspection.layers import shape_in_words
from trueloop.inspection.numbers import dtype_of, histogram, statistics_of
from trueloop.measure.model import restored_buffers
from trueloop.results.document import Column, Document, Part, Table
from trueloop.trust.files import read_regular

__all__ = ["SUFFIXES", "as_file", "inspect_activations", "layer_outputs", "prepared", "read_batch"]

SUFFIXES: Final = (".safetensors", ".npz", ".pt")
COLUMNS: Final = (
    *(Column("name", "name"), Column("shape", "shape"), Column("dtype"), Column("min", "real"), Column("max", "real")),
    *(Column("mean", "real"), Column("std", "real"), Column("zeros", "count"), Column("NaN, Inf", "count")),
)


def read_batch(file: Path) -> Any:
    """A tensor of a .npy or .pt file, or a dict of tensors. Raises BadData."""
    array = file.suffix == ".npy"
    try:
        return load_numpy(read_regular(file)) if array else load_torch(read_regular(file))
    except Exception as error:  # noqa: BLE001 - numpy and torch raise many kinds for a file that is not theirs
        why = why_unreadable(error, "numpy" if array else "torch.save")
        said = f"--inputs {file} {why}"
        raise BadData(f"{said}. Nothing was run: name a .npy file, or a .pt file with a tensor.") from None


def prepared(raw: Any, model: nn.Module, prepare: Callable[[Any], Any] | None = None) -> Any:
    """Raw samples as the model takes them, on its device."""
    there = moved(raw, next((each.device for each in model.parameters()), torch.device("cpu")))
    return there if prepare is None else prepare(there)


def layer_outputs(model: nn.Module, layer: str, inputs: Any, precision: Precision | None = None) -> dict[str, Tensor]:
    """One forward in eval mode that changes nothing; the layer's tensors by name, on the CPU. Raises Misuse."""
    layers = {name: part for name, part in model.named_modules() if name}
    if layer not in layers:
        some = ", ".join(list(layers)[:8]) + (" ..." if len(layers) > 8 else "")
        near = did_you_mean(layer, layers)
        raise Misuse(f"The model has no layer {layer!r}.{near} Nothing was written. Layers: {some or 'none'}.")
    calls: list[Any] = []
    handle = layers[layer].register_forward_hook(lambda _, __, output: calls.append(_kept(output)))
    try:
        with (
            evaluating(model),
            restored_buffers(model),
            (precision or Precision("fp32", torch.device("cpu"))).autocast(),
        ):
            call_model(model, inputs)
    finally:
        handle.remove()
    if not calls:
        raise Misuse(f"The layer {layer} was not called for this batch, so it has no output. Nothing was written.")
    found: dict[str, Tensor] = {}
    for number, output in enumerate(calls, 1):
        found |= dict(_named("output" if len(calls) == 1 else f"call{number}", output))
    if not found:
        raise Misuse(f"The layer {layer} returns no tensor. Nothing was written.")
    return found


def _kept(value: Any) -> Any:
    """Copies: a later layer may write into the output in place."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True).contiguous()
    if isinstance(value, Mapping):
        return {str(key): _kept(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_kept(item) for item in value]
    return None


def _named(name: str, value: Any) -> list[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        return [(name, value)]
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [pair for key, item in inside for pair in _named(f"{name}.{key}", item)]


def as_file(tensors: Mapping[str, Tensor], suffix: str) -> tuple[bytes, str]:
    """The content of a file of that kind, and a remark about it."""
    if suffix == ".safetensors":
        return save({name: tensor.clone() for name, tensor in tensors.items()}), ""
    data, remark = io.BytesIO(), ""
    if suffix == ".pt":
        torch.save(dict(tensors), data)
        return data.getvalue(), ""
    arrays = {name: tensor.float() if tensor.dtype == torch.bfloat16 else tensor for name, tensor in tensors.items()}
    if any(tensor.dtype == torch.bfloat16 for tensor in tensors.values()):
        remark = "NumPy has no bfloat16: written as float32, with the same values."
    np.savez(data, **{name: tensor.numpy() for name, tensor in arrays.items()})  # type: ignore[arg-type]
    return data.getvalue(), remark


def inspect_activations(tensors: Mapping[str, Tensor], title: str, inputs: Any, notes: tuple[str, ...]) -> Document:
    rows = []
    for name, tensor in tensors.items():
        each = statistics_of(tensor)
        values = (each["min"], each["max"], each["mean"], each["std"], each["zeros"], each["nan"] + each["inf"])
        rows.append((name, tuple(tensor.shape), dtype_of(tensor), *values))
    note = f"For a batch of {shape_in_words(inputs)}, in eval mode."
    parts: list[Part] = [Table("Output", COLUMNS, tuple(rows), note)]
    first = next(iter(tensors.items()))
    bars = histogram(first[1], f"Values of {first[0]}")
    return Document(title, (*parts, *([bars] if bars else [])), notes)
