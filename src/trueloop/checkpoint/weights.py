"""Plain weights, in and out: from a run, a checkpoint or a file of somebody else's, and into a file that others can
load."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import safetensors.torch
import torch
from torch import Tensor

from trueloop.checkpoint.contents import Contents, read_contents, read_training, read_weights_file
from trueloop.checkpoint.find import chosen, find_checkpoints
from trueloop.errors import BadCheckpoint, CannotSave, Misuse

__all__ = ["best_contents", "read_weights", "write_weights"]

_PICKLED: Final = (".pt", ".pth", ".bin")
_INSIDE: Final = ("state_dict", "model_state_dict", "model", "weights")
"""Under which keys people put the weights when they save more than these."""


def best_contents(path: Path) -> tuple[Contents, str]:
    """Of the checkpoint that a path means, verified; and where it is."""
    store, names = find_checkpoints(path)
    name = chosen(store, names)
    return read_contents(store, name), store.where(name)


def read_weights(path: Path) -> tuple[dict[str, Tensor], str]:
    """Tensors by name, and in words where they came from. A moving average is taken before the weights it follows."""
    if path.is_dir():
        contents, where = best_contents(path)
        model = "ema" if "ema" in contents.weights else "model"
        tensors = contents.state_of(model)
        shown = f"{where} (its moving average)" if model == "ema" else where
    else:
        tensors, shown = _from_file(path), str(path)
    found = {name: value for name, value in tensors.items() if isinstance(value, Tensor)}
    if not found:
        raise BadCheckpoint(f"{path} holds no tensors by name. Nothing was loaded.")
    return found, shown


def _from_file(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadCheckpoint(f"{path} cannot be read ({error.strerror}). Nothing was loaded.") from None
    if path.suffix == ".safetensors":
        return dict(read_weights_file(data, str(path)))
    if path.suffix not in _PICKLED:
        raise BadCheckpoint(f"{path} is neither a folder nor a .safetensors or .pt file. Nothing was loaded.")
    values = read_training(data, str(path))
    for key in _INSIDE:
        if isinstance(values.get(key), Mapping):
            return dict(values[key])
    return values


def write_weights(state: Mapping[str, Any], file: Path) -> list[str]:
    """As a file that appears whole or not at all; the names of what it could not hold."""
    if file.exists():
        raise Misuse(f"{file} exists already. Nothing was written: choose another name.")
    tensors = {name: value.contiguous() for name, value in state.items() if isinstance(value, Tensor)}
    aside = file.with_name(f".{file.name}.writing")
    try:
        if file.suffix == ".safetensors":
            aside.write_bytes(safetensors.torch.save(tensors, {"format": "pt"}))
        else:
            torch.save(tensors, aside)
        os.replace(aside, file)
    except (OSError, RuntimeError) as error:  # torch.save tells of a full disk by a RuntimeError
        aside.unlink(missing_ok=True)
        raise CannotSave(f"{file} could not be written ({error}).") from None
    return [name for name in state if name not in tensors]
