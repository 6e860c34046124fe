"""Read weights from a run, a checkpoint or any weights file, and write them to a file that other tools can load."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.checkpoint.contents import Contents, read_contents, read_training, read_weights_file
from trueloop.checkpoint.locate import best_or_newest, find_checkpoints
from trueloop.checkpoint.safetensors_writer import write_tensors
from trueloop.errors import BadCheckpoint, CannotSave, Misuse
from trueloop.trust.files import read_regular

__all__ = ["best_contents", "read_weights", "write_weights"]

_PICKLED: Final = (".pt", ".pth", ".bin")
# Common keys of the weights in a file that holds more than weights
_INSIDE: Final = ("state_dict", "model_state_dict", "model", "weights")


def best_contents(path: Path) -> tuple[Contents, str]:
    """The verified contents of the checkpoint that a path refers to, and its location."""
    store, names = find_checkpoints(path)
    name = best_or_newest(store, names)
    return read_contents(store, name), store.where(name)


def read_weights(path: Path) -> tuple[dict[str, Tensor], str]:
    """Tensors by name, and their source for messages. Prefers the moving average over the weights."""
    if path.is_dir():
        contents, where = best_contents(path)
        model = "ema" if "ema" in contents.weights else "model"
        tensors = contents.state_of(model)
        shown = f"{where} (its moving average)" if model == "ema" else where
    else:
        tensors, shown = _from_file(path), str(path)
    named = {name: value for name, value in tensors.items() if isinstance(value, Tensor)}
    if not named:
        raise BadCheckpoint(f"{path} holds no named tensors. Nothing was loaded.")
    return named, shown


def _from_file(path: Path) -> dict[str, Any]:
    try:
        data = read_regular(path)
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
    """Write a file atomically; returns the names of the entries that it cannot hold."""
    if file.exists():
        raise Misuse(f"{file} exists already. Nothing was written: choose a different name.")
    tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
    temporary = file.with_name(f".{file.name}.writing")
    try:
        if file.suffix == ".safetensors":
            with temporary.open("wb") as out:
                write_tensors(tensors, out, {"format": "pt"})
        else:
            torch.save({name: value.contiguous() for name, value in tensors.items()}, temporary)
        os.replace(temporary, file)
    except CannotSave:
        temporary.unlink(missing_ok=True)
        raise
    except (OSError, RuntimeError) as error:  # torch.save raises RuntimeError for a full disk
        temporary.unlink(missing_ok=True)
        raise CannotSave(f"{file} could not be written ({error}).") from None
    return [name for name in state if name not in tensors]
