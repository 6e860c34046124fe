"""What one process of several holds of a checkpoint, and what it takes out of one: in pieces, and never all of it at
once.

Saved by torch.distributed.checkpoint, so that any layout can be read into any other: another number of processes,
another strategy, and whole checkpoints too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
    create_default_local_save_plan,
)
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan, WriteItem
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor, Replicate

from trueloop.checkpoint.contents import OTHERS, TRAINING, fits, read_contents, read_training
from trueloop.checkpoint.form import Form, Reading
from trueloop.checkpoint.sharded import OPTIMIZER, PIECES, Spread, group_of, is_sharded, spreads_in
from trueloop.checkpoint.sharded_storage import PieceReader, PieceWriter
from trueloop.checkpoint.sharded_tensors import Blocks, InFiles, InMemory, dtype_of, whole_spreads
from trueloop.checkpoint.snapshot import Snapshot
from trueloop.checkpoint.store import MANIFEST, Folder, Store
from trueloop.errors import BadCheckpoint, CannotSave
from trueloop.parallel.parts import divided_form, in_one_form, own
from trueloop.parallel.peers import Peers

__all__ = ["InPieces", "Opened", "Pieces", "open_checkpoint", "taken_in_pieces"]


@final
class InPieces(Form):
    """Each process writes what it holds, and reads what it will hold."""

    def __init__(self, peers: Peers) -> None:
        self.peers = peers
        # Of its own, and of the host's memory: saves go on behind the training's back, whose messages must not get
        # mixed up with theirs.
        self.group: dist.ProcessGroup = dist.new_group(backend="gloo")

    def taken(
        self,
        about: Mapping[str, Any],
        models: Mapping[str, nn.Module],
        optimizer: torch.optim.Optimizer,
        training: Mapping[str, Any],
    ) -> Pieces:
        states = {name: model.state_dict() for name, model in models.items()}
        return taken_in_pieces(about, states, {**training, OPTIMIZER: optimizer.state_dict()}, self.group)

    def read(self, store: Store, name: str) -> Opened:
        return open_checkpoint(store, name, self.peers, self.group)

    @property
    def any_failed(self) -> Callable[[bool], bool]:
        return self.peers.any


@final
@dataclass(frozen=True, slots=True)
class Pieces:
    """A snapshot of what this process holds. All processes must write theirs."""

    about: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    """By 'group/name': what this process holds of each, in the host's memory."""
    items: Sequence[WriteItem]
    """Which part of which tensor that is."""
    training: Mapping[str, Any]
    group: dist.ProcessGroup
    wait: Callable[[], object]

    @property
    def first(self) -> bool:
        return dist.get_rank(self.group) == 0

    def write(self, store: Store, name: str) -> str:
        """All or nothing, on all processes. Raises CannotSave."""
        self.wait()
        writer = PieceWriter(store, name, self.about, {TRAINING: lambda out: torch.save(dict(self.training), out)})
        try:
            save({}, storage_writer=writer, planner=_Planned(self.tensors, self.items), process_group=self.group)
        except CheckpointException as error:
            if self.first:
                store.abandon(name)
            raise _cannot_save(store, name, error) from error
        return store.where(name)


@final
class _Planned(DefaultSavePlanner):
    """torch's own, for a snapshot: what is whose was found out when it was taken."""

    def __init__(self, tensors: Mapping[str, Tensor], items: Sequence[WriteItem]) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self.tensors, self.items = tensors, items

    def create_local_plan(self) -> SavePlan:
        self.plan = SavePlan(list(self.items))
        return self.plan

    def lookup_object(self, index: MetadataIndex) -> Tensor:
        return self.tensors[index.fqn]


def _cannot_save(store: Store, name: str, error: CheckpointException) -> CannotSave:
    """The first process's words on what went wrong, and where."""
    rank, (cause, _) = min(error.failures.items())
    if isinstance(cause, FileNotFoundError) and rank:
        where = "it does not see the folder: all processes need one that all can write to"
        return store.refusal(name, f"process {rank}: {cause.strerror}; {where}")
    if isinstance(cause, OSError):
        return store.refusal(name, f"process {rank}: {cause.strerror or cause}")
    return store.refusal(name, f"process {rank}: {cause!r}")


def taken_in_pieces(
    about: Mapping[str, Any],
    models: Mapping[str, Mapping[str, Any]],
    training: Mapping[str, Any],
    group: dist.ProcessGroup,
) -> Pieces:
    """As `taken`, of a run whose tensors are spread over processes: each calls it, at the same step."""
    snapshot, optimizer = Snapshot(), in_one_form(training[OPTIMIZER])
    held = {f"{model}/{name}": value for model, state in models.items() for name, value in state.items() if fits(value)}
    held |= {f"{OPTIMIZER}/{number}.{word}": value for number, word, value in _states(optimizer) if fits(value)}
    held = {key: _settled(value) for key, value in held.items()}
    items = create_default_local_save_plan(held, dist.get_rank(group) == 0).items
    tensors = {item.index.fqn: snapshot.of(own(held[item.index.fqn]), item.index.fqn) for item in items}
    rest = {
        number: {word: value for word, value in state.items() if not fits(value)}
        for number, state in optimizer["state"].items()
    }
    plain = {**training, OPTIMIZER: {**optimizer, "state": rest}}
    small = {key: snapshot.of(value, f"the run's {key}") for key, value in plain.items()}
    others = {
        model: {name: value for name, value in state.items() if not fits(value)} for model, state in models.items()
    }
    small[OTHERS] = {model: snapshot.of(values, f"the {model}'s state") for model, values in others.items() if values}
    snapshot.send()
    return Pieces(dict(about), tensors, items, small, group, snapshot.wait)


def _states(optimizer: Mapping[str, Any]) -> list[tuple[int, str, Any]]:
    return [(number, word, value) for number, state in optimizer["state"].items() for word, value in state.items()]


def _settled(value: Tensor) -> Tensor:
    """A sum that has not been made yet cannot be cut into pieces: it is made now."""
    if isinstance(value, DTensor) and any(placement.is_partial() for placement in value.placements):
        return value.redistribute(placements=[Replicate()] * value.device_mesh.ndim)
    return value


@final
@dataclass(frozen=True)
class Opened(Reading):
    """A verified checkpoint, whole or in pieces, from which each of several processes takes its part. All must ask
    alike."""

    about: Mapping[str, Any]
    training: Mapping[str, Any]
    """All but what is in the pieces."""
    spreads: Mapping[str, Spread]
    blocks: Blocks
    shown: str
    group: dist.ProcessGroup

    @property
    def models(self) -> tuple[str, ...]:
        return tuple({group: None for group, _ in map(group_of, self.spreads) if group != OPTIMIZER})

    def fill_model(self, name: str, model: nn.Module) -> None:
        """Its state, in place."""
        if name not in self.models:
            raise BadCheckpoint(
                f"This checkpoint holds no {name!r}, only {', '.join(self.models)}. Nothing was loaded."
            )
        state = model.state_dict()
        self._fill({f"{name}/{key}": value for key, value in state.items() if fits(value)})
        others = self.training.get(OTHERS, {}).get(name, {})
        model.load_state_dict({**{key: value for key, value in state.items() if fits(value)}, **others})

    def fill_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Its state, laid out as its parameters are."""
        listed = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        groups, saved = optimizer.state_dict()["param_groups"], self.training[OPTIMIZER]
        parameters = in_one_form({"state": dict(enumerate(listed)), "param_groups": groups})["state"]
        state: dict[int, dict[str, Any]] = {number: dict(values) for number, values in saved["state"].items()}
        wanted: dict[str, Tensor] = {}
        for key, spread in self.spreads.items():
            group, name = group_of(key)
            if group == OPTIMIZER:
                number, _, word = name.partition(".")
                tensor = self._room_for(spread, parameters[int(number)])
                state.setdefault(int(number), {})[word] = wanted[key] = tensor
        self._fill(wanted)
        optimizer.load_state_dict(divided_form({**saved, "state": state}, groups))

    def _room_for(self, spread: Spread, parameter: Tensor) -> Tensor:
        dtype = dtype_of(spread, self.shown)
        if spread.shape == tuple(parameter.shape) and spread.shape:
            return torch.empty_like(parameter.detach(), dtype=dtype)
        if isinstance(parameter, DTensor) and spread.shape:
            mesh = parameter.device_mesh
            room = torch.empty(spread.shape, dtype=dtype, device=parameter.device)
            return DTensor.from_local(room, mesh, [Replicate()] * mesh.ndim, run_check=False)
        return torch.empty(spread.shape, dtype=dtype)

    def _fill(self, targets: Mapping[str, Tensor]) -> None:
        missing = [key for key in targets if key not in self.spreads]
        if missing:
            raise BadCheckpoint(f"{self.shown} holds no {missing[0]}: it is of another model. Nothing was loaded.")
        reader = PieceReader(self.spreads, self.blocks, self.shown)
        planner = DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
        try:
            load(dict(targets), storage_reader=reader, planner=planner, process_group=self.group)
        except CheckpointException as error:
            rank, (cause, _) = min(error.failures.items())
            raise BadCheckpoint(f"{self.shown} could not be loaded on process {rank}: {cause}") from error


def open_checkpoint(store: Store, name: str, peers: Peers, group: dist.ProcessGroup) -> Opened:
    """Every file verified, each by one process, before any is used. Raises BadCheckpoint, on all alike."""
    opened: Opened | None = None
    trouble = ""
    try:
        manifest = store.manifest(name)
        for file in sorted(manifest["files"])[peers.rank :: peers.world]:
            store.verify(name, file)
        opened = _in_pieces(store, name, manifest, group) if is_sharded(manifest) else _whole(store, name, group)
    except BadCheckpoint as error:
        trouble = str(error)
    troubles = [each for each in peers.gather(trouble) if each]
    if troubles or opened is None:
        raise BadCheckpoint(troubles[0])
    return opened


def _in_pieces(store: Store, name: str, manifest: Mapping[str, Any], group: dist.ProcessGroup) -> Opened:
    shown = store.where(name)
    if not isinstance(store, Folder):
        raise BadCheckpoint(
            f"{shown} lies in the memory of several processes: none of them can read the others' pieces."
        )
    training = read_training(store.read(name, TRAINING), f"{shown}/{TRAINING}")
    about = {key: value for key, value in manifest.items() if key not in ("files", PIECES)}
    return Opened(
        about, training, spreads_in(manifest, f"{shown}/{MANIFEST}"), InFiles(store.folder / name), shown, group
    )


def _whole(store: Store, name: str, group: dist.ProcessGroup) -> Opened:
    contents = read_contents(store, name)
    optimizer = contents.training[OPTIMIZER]
    tensors = {f"{model}/{key}": value for model, weights in contents.weights.items() for key, value in weights.items()}
    tensors |= {f"{OPTIMIZER}/{number}.{word}": value for number, word, value in _states(optimizer) if fits(value)}
    rest = {
        number: {word: value for word, value in state.items() if not fits(value)}
        for number, state in optimizer["state"].items()
    }
    training = {**contents.training, OPTIMIZER: {**optimizer, "state": rest}}
    return Opened(contents.about, training, whole_spreads(tensors), InMemory(tensors), store.where(name), group)
