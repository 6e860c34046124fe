"""The contents of a checkpoint in memory: named tensors per model, and everything else as plain values.

Reading never unpickles classes: weights are safetensors, the rest is loaded with `weights_only=True`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, TypeVar

import safetensors.torch
import torch
from torch import Tensor

from trueloop.checkpoint.safetensors_writer import write_tensors
from trueloop.checkpoint.sharded import OPTIMIZER, PIECES, is_sharded, read_piece_table
from trueloop.checkpoint.sharded_tensors import assemble_tensors
from trueloop.checkpoint.snapshot import Snapshot
from trueloop.checkpoint.store import MANIFEST, Store, Writer
from trueloop.checkpoint.tensor_files import load_torch
from trueloop.checkpoint.unreadable import foreign_name, kind_of
from trueloop.errors import BadCheckpoint
from trueloop.trust.checkpoints import MADE_HERE
from trueloop.trust.confine.client import LIMITS, Refused

__all__ = [
    "Contents",
    "about_of",
    "newest_valid",
    "read_contents",
    "read_training",
    "read_weights_file",
    "take_snapshot",
]

TRAINING: Final = "training.pt"
WEIGHTS: Final = ".safetensors"
OTHERS: Final = (
    "others"  # in `training`: state dict entries that safetensors cannot hold (`_extra_state`, sparse tensors)
)

T = TypeVar("T")
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Contents:
    """`weights` by model ('model', 'ema'); `training` is the rest."""

    about: Mapping[str, Any]  # Goes into the manifest: step, epoch, metric, versions, recipe
    weights: Mapping[str, Mapping[str, Tensor]]
    training: Mapping[str, Any] = field(default_factory=dict)
    wait: Callable[[], object] = lambda: None  # Waits for copies from a device; called before anything is written

    @property
    def first(self) -> bool:
        """True: one process holds everything, and removes old checkpoints."""
        return True

    def write(self, store: Store, name: str) -> str:
        """Write all or nothing; returns the location. Raises CannotSave."""
        self.wait()
        return store.write(name, self.about, self.writers())

    def writers(self) -> dict[str, Writer]:
        """File name -> its writer."""
        files = {f"{name}{WEIGHTS}": tensors_writer(tensors) for name, tensors in self.weights.items()}
        return {**files, TRAINING: lambda out: torch.save(dict(self.training), out)}

    def state_of(self, model: str) -> dict[str, Any]:
        """The complete state dict of a model, for `load_state_dict`."""
        require_model(model, tuple(self.weights))
        return {**self.weights[model], **self.training.get(OTHERS, {}).get(model, {})}


def require_model(name: str, models: tuple[str, ...]) -> None:
    if name not in models:
        raise BadCheckpoint(f"This checkpoint holds no {name!r}, only {', '.join(models)}. Nothing was loaded.")


def tensors_writer(tensors: Mapping[str, Tensor]) -> Writer:
    def write(out: BinaryIO) -> None:
        write_tensors(tensors, out)

    return write


def take_snapshot(about: Values, models: Mapping[str, Values], training: Values) -> Contents:
    """Copy the models' state dicts and the training state. Training can continue at once."""
    snapshot = Snapshot()
    # One snapshot per model, so that tied weights become two tensors and every name can be read alone.
    copies = {
        name: snapshot.of({key: value for key, value in state.items() if fits(value)}, f"the {name}'s state")
        for name, state in models.items()
    }
    rest = {key: snapshot.of(value, f"the run's {key}") for key, value in training.items()}
    rest[OTHERS] = copy_others(snapshot, models)
    snapshot.send()
    return Contents(dict(about), copies, rest, snapshot.wait)


def copy_others(snapshot: Snapshot, models: Mapping[str, Values]) -> dict[str, Any]:
    """Copies of the state dict entries that safetensors cannot hold, by model."""
    others = {name: {key: value for key, value in state.items() if not fits(value)} for name, state in models.items()}
    return {name: snapshot.of(values, f"the {name}'s state") for name, values in others.items() if values}


def fits(value: Any) -> bool:
    """Whether a safetensors file can hold the value."""
    dense = isinstance(value, Tensor) and value.layout == torch.strided and not value.is_quantized
    return dense and value.dtype != torch.complex128


def read_contents(store: Store, name: str) -> Contents:
    """Read a checkpoint. Verifies every file first; assembles a sharded checkpoint into full tensors."""
    manifest = store.manifest(name)
    if is_sharded(manifest):
        return _read_sharded(store, name, manifest)
    files = {file: store.read(name, file) for file in manifest["files"]}
    shown = store.where(name)
    own = store.is_own(manifest)
    training = read_training(files.pop(TRAINING), f"{shown}/{TRAINING}", own=own) if TRAINING in files else {}
    weights = {file.removesuffix(WEIGHTS): read_weights_file(data, f"{shown}/{file}") for file, data in files.items()}
    return Contents(about_of(manifest), weights, training)


def _read_sharded(store: Store, name: str, manifest: Mapping[str, Any]) -> Contents:
    shown = store.where(name)
    table = read_piece_table(manifest, f"{shown}/{MANIFEST}")
    training = read_training(store.read(name, TRAINING), f"{shown}/{TRAINING}", own=store.is_own(manifest))
    files = sorted(file for file in manifest["files"] if file != TRAINING)
    tensors = ((file, read_weights_file(store.read(name, file), f"{shown}/{file}")) for file in files)
    groups = assemble_tensors(table, tensors, shown)
    state = training.setdefault(OPTIMIZER, {}).setdefault("state", {})
    for key, tensor in groups.pop(OPTIMIZER, {}).items():
        number, word = key.split(".", 1)
        state.setdefault(int(number), {})[word] = tensor
    return Contents(about_of(manifest), groups, training)


def about_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What the manifest says about the run: not about files and pieces."""
    return {key: value for key, value in manifest.items() if key not in ("files", PIECES, MADE_HERE)}


def newest_valid(store: Store, read: Callable[[Store, str], T]) -> tuple[str | None, T | None, list[str]]:
    """The newest checkpoint that `read` accepts: (name, result of `read`, problems of the newer ones). Damaged ones are
    skipped, never removed."""
    problems: list[str] = []
    for name in reversed(store.names()):
        try:
            return name, read(store, name), problems
        except BadCheckpoint as error:
            problems.append(str(error))
    return None, None, problems


def read_training(data: bytes, shown: str, *, own: bool = False) -> dict[str, Any]:
    """Plain values and tensors. Refuses files that execute code when loaded. `own`: this user has written it here."""
    try:
        values = load_torch(data, own=own)
    except Exception as error:  # noqa: BLE001 - torch raises many types for a bad file
        limit = str(error) if isinstance(error, Refused) and error.kind in LIMITS else ""
        reason = (limit or foreign_name(error) or kind_of(error))[:160]
        said = f"{shown} is not safe to read and was refused; no code in it was executed"
        raise BadCheckpoint(f"{said}. ({reason})") from None
    if not isinstance(values, dict):
        raise BadCheckpoint(f"{shown} holds a {type(values).__name__}, not a dict.")
    return values


def read_weights_file(data: bytes, shown: str) -> dict[str, Tensor]:
    try:
        return dict(sorted(safetensors.torch.load(data).items()))  # the library's order is not deterministic
    except (safetensors.SafetensorError, KeyError, ValueError, TypeError) as error:
        raise BadCheckpoint(f"{shown} is not a safetensors file ({error}).") from None
