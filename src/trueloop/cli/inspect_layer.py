"""`trueloop inspect model ... --activations LAYER --output FILE`: the output of one layer for one batch."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueloop.cli.deliver import SUFFIXES as REPORTS
from trueloop.cli.deliver import deliver, writable, write_file
from trueloop.errors import Misuse
from trueloop.recipe.recipe import Recipe

if TYPE_CHECKING:
    from torch import nn

__all__ = ["LayerSubject", "inspect_layer"]


@dataclass(frozen=True, slots=True)
class LayerSubject:
    model: nn.Module
    title: str
    batch: Any  # As the model takes it; None: --inputs must say
    recipe: Recipe | None = None
    prepare: Callable[[Any], Any] | None = None  # Of the recipe's data: --inputs are raw, as `predict` takes them


def inspect_layer(options: argparse.Namespace, subject: LayerSubject) -> int:
    from trueloop.engine.precision import Precision
    from trueloop.inspection.activations import SUFFIXES, as_file, inspect_activations, layer_outputs

    files = [Path(name) for name in options.output]
    other = next((file for file in files if file.suffix not in (*SUFFIXES, *REPORTS)), None)
    if other is not None:
        kinds = f"{', '.join(SUFFIXES)} for the tensors, {', '.join(REPORTS)} for the report"
        raise Misuse(f"--output {other}: the suffix says what is written: {kinds}. Nothing was run.")
    tensors = [writable(file) for file in files if file.suffix in SUFFIXES]
    inputs = _inputs(options, subject)
    device = next((each.device for each in subject.model.parameters()), None)
    precision = Precision(subject.recipe.precision, device) if subject.recipe is not None and device else None
    found = layer_outputs(subject.model, options.activations, inputs, precision)
    notes = []
    for file in tensors:
        content, remark = as_file(found, file.suffix)
        write_file(file, content)
        notes += [f"{file}: {len(content):,} bytes, {', '.join(found)}.", *([remark] if remark else [])]
    title = f"the output of {options.activations} ({_kind(subject.model, options.activations)}) in {subject.title}"
    options.output = [str(file) for file in files if file.suffix in REPORTS]
    deliver(inspect_activations(found, title, inputs, tuple(notes)), options)
    return 0


def _kind(model: nn.Module, layer: str) -> str:
    return type(model.get_submodule(layer)).__name__


def _inputs(options: argparse.Namespace, subject: LayerSubject) -> Any:
    from trueloop.inspection.activations import prepared, read_batch

    if len(options.inputs) > 1:
        raise Misuse("--activations runs one batch. Nothing was run: give --inputs once.")
    if options.inputs:
        return prepared(read_batch(Path(options.inputs[0])), subject.model, subject.prepare)
    if subject.batch is None:
        typed = "add `--input 8x3x32x32` (zeros), or `--inputs batch.npy`"
        raise Misuse(f"{subject.title} is called once, and its inputs are unknown. Nothing was run: {typed}.")
    return prepared(subject.batch, subject.model)
