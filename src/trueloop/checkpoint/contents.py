"""What a checkpoint holds, in memory: named tensors of models, and everything else as plain values.

Nothing that is read is ever unpickled into classes: weights are safetensors, the rest is read with `weights_only=True`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

import safetensors.torch
import torch
from torch import Tensor

from trueloop.checkpoint.sharded import OPTIMIZER, PIECES, is_sharded, spreads_in
from trueloop.checkpoint.sharded_tensors import put_together
from trueloop.checkpoint.snapshot import Snapshot
from trueloop.checkpoint.store import MANIFEST, Store, Writer
from trueloop.errors import BadCheckpoint

__all__ = [
    "OTHERS",
    "TRAINING",
    "Contents",
    "fits",
    "read_contents",
    "read_training",
    "read_weights_file",
    "taken",
    "tensors_writer",
]

TRAINING: Final = "training.pt"
WEIGHTS: Final = ".safetensors"
OTHERS: Final = "others"
"""In `training`: entries of state dicts that safetensors cannot hold (`_extra_state`, sparse and wide complex tensors),
by model."""


@dataclass(frozen=True, slots=True)
class Contents:
    """`weights` by model ('model', 'ema'); `training` is the rest."""

    about: Mapping[str, Any]
    """Goes into the manifest: step, epoch, metric, versions, recipe."""
    weights: Mapping[str, Mapping[str, Tensor]]
    training: Mapping[str, Any] = field(default_factory=dict)
    wait: Callable[[], object] = lambda: None
    """Until copies from a device have arrived: before anything is written."""

    @property
    def first(self) -> bool:
        """One process holds all of it, and tidies up."""
        return True

    def write(self, store: Store, name: str) -> str:
        """All or nothing; where it is now. Raises CannotSave."""
        self.wait()
        return store.write(name, self.about, self.writers())

    def writers(self) -> dict[str, Writer]:
        """File name -> what writes it."""
        files: dict[str, Writer] = {
            f"{name}{WEIGHTS}": tensors_writer(tensors) for name, tensors in self.weights.items()
        }
        files[TRAINING] = lambda out: torch.save(dict(self.training), out)
        return files

    def state_of(self, model: str) -> dict[str, Any]:
        """The whole state dict of a model, for `load_state_dict`."""
        if model not in self.weights:
            raise BadCheckpoint(
                f"This checkpoint holds no {model!r}, only {', '.join(self.weights)}. Nothing was loaded."
            )
        others = self.training.get(OTHERS, {}).get(model, {})
        return {**self.weights[model], **others}


def tensors_writer(tensors: Mapping[str, Tensor]) -> Writer:
    def write(out: BinaryIO) -> None:
        out.write(safetensors.torch.save({name: tensor.contiguous() for name, tensor in tensors.items()}))

    return write


def taken(about: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]], training: Mapping[str, Any]) -> Contents:
    """A snapshot of the models' state dicts and of the rest: the training may go on at once."""
    snapshot = Snapshot()
    weights = {name: {key: value for key, value in state.items() if fits(value)} for name, state in models.items()}
    others = {name: {key: value for key, value in state.items() if not fits(value)} for name, state in models.items()}
    # Each on its own, so that tied weights become two tensors: every name can be read alone, by anybody.
    copies = {name: snapshot.of(tensors, f"the {name}'s state") for name, tensors in weights.items()}
    rest = {key: snapshot.of(value, f"the run's {key}") for key, value in training.items()}
    rest[OTHERS] = {name: snapshot.of(values, f"the {name}'s state") for name, values in others.items() if values}
    snapshot.send()
    return Contents(dict(about), copies, rest, snapshot.wait)


def fits(value: Any) -> bool:
    """Can a safetensors file hold it?"""
    return (
        isinstance(value, Tensor)
        and value.layout == torch.strided
        and not value.is_quantized
        and value.dtype != torch.complex128
    )


def read_contents(store: Store, name: str) -> Contents:
    """Every file verified before any is used. One in pieces is put together: what comes out is the same."""
    manifest = store.manifest(name)
    if is_sharded(manifest):
        return _read_pieces(store, name, manifest)
    files = {file: store.read(name, file) for file in manifest["files"]}
    shown = store.where(name)
    weights = {
        file.removesuffix(WEIGHTS): read_weights_file(data, f"{shown}/{file}")
        for file, data in files.items()
        if file != TRAINING
    }
    training = read_training(files[TRAINING], f"{shown}/{TRAINING}") if TRAINING in files else {}
    return Contents({key: value for key, value in manifest.items() if key != "files"}, weights, training)


def _read_pieces(store: Store, name: str, manifest: Mapping[str, Any]) -> Contents:
    shown = store.where(name)
    spreads = spreads_in(manifest, f"{shown}/{MANIFEST}")
    training = read_training(store.read(name, TRAINING), f"{shown}/{TRAINING}")
    files = sorted(file for file in manifest["files"] if file != TRAINING)
    groups = put_together(
        spreads, ((file, read_weights_file(store.read(name, file), f"{shown}/{file}")) for file in files), shown
    )
    state = training.setdefault(OPTIMIZER, {}).setdefault("state", {})
    for key, tensor in groups.pop(OPTIMIZER, {}).items():
        number, word = key.split(".", 1)
        state.setdefault(int(number), {})[word] = tensor
    return Contents({key: value for key, value in manifest.items() if key not in ("files", PIECES)}, groups, training)


def read_training(data: bytes, shown: str) -> dict[str, Any]:
    """Plain values and tensors; whatever would run code is refused."""
    try:
        values = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001 - whatever torch finds wrong with a file, the answer is one sentence
        raise BadCheckpoint(
            f"{shown} is not safe to read and was refused; nothing in it was run. {_first_line(error)}"
        ) from None
    if not isinstance(values, dict):
        raise BadCheckpoint(f"{shown} holds a {type(values).__name__}, not a dict.")
    return values


def _first_line(error: Exception) -> str:
    """What torch found, without its advice to trust the file after all."""
    lines = [line.strip() for line in str(error).splitlines() if "nsupported" in line or "not allowed" in line]
    return f"({(lines or [type(error).__name__])[0][:160]})"


def read_weights_file(data: bytes, shown: str) -> dict[str, Tensor]:
    try:
        return dict(sorted(safetensors.torch.load(data).items()))  # the library gives them in another order each time
    except (safetensors.SafetensorError, KeyError, ValueError, TypeError) as error:
        raise BadCheckpoint(f"{shown} is no safetensors file ({error}).") from None
