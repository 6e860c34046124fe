"""Saves the shards that one process holds, and loads the shards that it needs, never the full checkpoint at once.

Uses torch.distributed.checkpoint, so any layout can be loaded into any other: a different world size, a different
strategy, and full checkpoints too.
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
from torch.optim import Optimizer

from trueloop.checkpoint.contents import (
    OTHERS,
    TRAINING,
    about_of,
    copy_others,
    fits,
    read_contents,
    read_training,
    require_model,
)
from trueloop.checkpoint.layout import CheckpointReader, Layout, Models, Values
from trueloop.checkpoint.sharded import OPTIMIZER, TensorPieces, group_of, is_sharded, read_piece_table
from trueloop.checkpoint.sharded_storage import PieceReader, PieceWriter
from trueloop.checkpoint.sharded_tensors import Blocks, FileBlocks, MemoryBlocks, dtype_of, single_pieces
from trueloop.checkpoint.snapshot import Snapshot
from trueloop.checkpoint.store import MANIFEST, Folder, Store
from trueloop.errors import BadCheckpoint, CannotSave
from trueloop.parallel.parts import divided_form, in_one_form, own
from trueloop.parallel.peers import Peers

__all__ = ["ShardedLayout", "ShardedReader", "ShardedSnapshot"]


@final
class ShardedLayout(Layout):
    """Each process writes the shards that it holds, and reads the shards that it needs."""

    def __init__(self, peers: Peers) -> None:
        self.peers = peers
        # A separate gloo group: saves run in the background and must not mix with the training's collectives.
        self.group: dist.ProcessGroup = dist.new_group(backend="gloo")

    def snapshot(self, about: Values, models: Models, optimizer: Optimizer, training: Values) -> ShardedSnapshot:
        states = {name: model.state_dict() for name, model in models.items()}
        return take_sharded_snapshot(about, states, {**training, OPTIMIZER: optimizer.state_dict()}, self.group)

    def read(self, store: Store, name: str) -> ShardedReader:
        return open_checkpoint(store, name, self.peers, self.group)

    @property
    def any_failed(self) -> Callable[[bool], bool]:
        return self.peers.any


@final
@dataclass(frozen=True, slots=True)
class ShardedSnapshot:
    """A snapshot of the shards of this process. All processes must write theirs."""

    about: Values
    tensors: Mapping[str, Tensor]  # By 'group/name': this process's part of each tensor, in host memory
    items: Sequence[WriteItem]  # Which part of which tensor that is
    training: Values
    group: dist.ProcessGroup
    wait: Callable[[], object]

    @property
    def first(self) -> bool:
        return dist.get_rank(self.group) == 0

    def write(self, store: Store, name: str) -> str:
        """All or nothing, on all processes. Raises CannotSave."""
        self.wait()
        writer = PieceWriter(store, name, self.about, {TRAINING: lambda out: torch.save(dict(self.training), out)})
        planner = _SnapshotPlanner(self.tensors, self.items)
        try:
            save({}, storage_writer=writer, planner=planner, process_group=self.group)
        except CheckpointException as error:
            if self.first:
                store.abandon(name)
            raise _cannot_save(store, name, error) from error
        return store.where(name)


@final
class _SnapshotPlanner(DefaultSavePlanner):
    """torch's planner with the plan made when the snapshot was taken."""

    def __init__(self, tensors: Mapping[str, Tensor], items: Sequence[WriteItem]) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self.tensors, self.items = tensors, items

    def create_local_plan(self) -> SavePlan:
        self.plan = SavePlan(list(self.items))
        return self.plan

    def lookup_object(self, index: MetadataIndex) -> Tensor:
        return self.tensors[index.fqn]


def _cannot_save(store: Store, name: str, error: CheckpointException) -> CannotSave:
    """The error of the lowest rank that failed."""
    rank, (cause, _) = min(error.failures.items())
    reason = str(cause.strerror or cause) if isinstance(cause, OSError) else repr(cause)
    if isinstance(cause, FileNotFoundError) and rank:
        reason += "; it does not see the folder: use a folder that all processes can write to"
    return store.refusal(name, f"process {rank}: {reason}")


def take_sharded_snapshot(
    about: Values, models: Mapping[str, Mapping[str, Any]], training: Values, group: dist.ProcessGroup
) -> ShardedSnapshot:
    """As `take_snapshot`, for sharded tensors. All processes must call it at the same step."""
    snapshot = Snapshot()
    optimizer_tensors, optimizer = _split_optimizer(in_one_form(training[OPTIMIZER]))
    held = {f"{model}/{name}": value for model, state in models.items() for name, value in state.items() if fits(value)}
    held = {key: _reduce_partial(value) for key, value in (held | optimizer_tensors).items()}
    items = create_default_local_save_plan(held, dist.get_rank(group) == 0).items
    tensors = {item.index.fqn: snapshot.of(own(held[item.index.fqn]), item.index.fqn) for item in items}
    plain = {**training, OPTIMIZER: optimizer}
    small = {key: snapshot.of(value, f"the run's {key}") for key, value in plain.items()}
    small[OTHERS] = copy_others(snapshot, models)
    snapshot.send()
    return ShardedSnapshot(dict(about), tensors, items, small, group, snapshot.wait)


def _split_optimizer(state: Values) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors by 'optimizer/NUMBER.WORD', and the state without them."""
    tensors = {
        f"{OPTIMIZER}/{number}.{word}": value
        for number, values in state["state"].items()
        for word, value in values.items()
        if fits(value)
    }
    rest = {}
    for number, values in state["state"].items():
        rest[number] = {word: value for word, value in values.items() if not fits(value)}
    return tensors, {**state, "state": rest}


def _reduce_partial(value: Tensor) -> Tensor:
    """A pending sum (a Partial placement) cannot be cut into pieces: reduce it now."""
    if isinstance(value, DTensor) and any(placement.is_partial() for placement in value.placements):
        return value.redistribute(placements=[Replicate()] * value.device_mesh.ndim)
    return value


@final
@dataclass(frozen=True)
class ShardedReader(CheckpointReader):
    """A verified checkpoint, full or sharded; each process loads its part. All must call the same methods."""

    about: Values
    training: Values  # Everything that is not in the pieces
    table: Mapping[str, TensorPieces]
    blocks: Blocks
    shown: str
    group: dist.ProcessGroup

    @property
    def models(self) -> tuple[str, ...]:
        return tuple({group: None for group, _ in map(group_of, self.table) if group != OPTIMIZER})

    def fill_model(self, name: str, model: nn.Module) -> None:
        """Load the state in place."""
        require_model(name, self.models)
        state = {key: value for key, value in model.state_dict().items() if fits(value)}
        self._fill({f"{name}/{key}": value for key, value in state.items()})
        model.load_state_dict({**state, **self.training.get(OTHERS, {}).get(name, {})})

    def fill_optimizer(self, optimizer: Optimizer) -> None:
        """Load the state with the placements of the parameters."""
        listed = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        groups, saved = optimizer.state_dict()["param_groups"], self.training[OPTIMIZER]
        parameters = in_one_form({"state": dict(enumerate(listed)), "param_groups": groups})["state"]
        state: dict[int, dict[str, Any]] = {number: dict(values) for number, values in saved["state"].items()}
        wanted: dict[str, Tensor] = {}
        for key, pieces in self.table.items():
            group, name = group_of(key)
            if group == OPTIMIZER:
                number, _, word = name.partition(".")
                tensor = self._allocate(pieces, parameters[int(number)])
                state.setdefault(int(number), {})[word] = wanted[key] = tensor
        self._fill(wanted)
        optimizer.load_state_dict(divided_form({**saved, "state": state}, groups))

    def _allocate(self, pieces: TensorPieces, parameter: Tensor) -> Tensor:
        dtype, shape = dtype_of(pieces, self.shown), pieces.shape
        if shape == tuple(parameter.shape) and shape:
            return torch.empty_like(parameter.detach(), dtype=dtype)
        if isinstance(parameter, DTensor) and shape:
            mesh = parameter.device_mesh
            room = torch.empty(shape, dtype=dtype, device=parameter.device)
            return DTensor.from_local(room, mesh, [Replicate()] * mesh.ndim, run_check=False)
        return torch.empty(shape, dtype=dtype)

    def _fill(self, targets: Mapping[str, Tensor]) -> None:
        if missing := [key for key in targets if key not in self.table]:
            raise BadCheckpoint(f"{self.shown} holds no {missing[0]}: it is of a different model. Nothing was loaded.")
        reader = PieceReader(self.table, self.blocks, self.shown)
        planner = DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
        try:
            load(dict(targets), storage_reader=reader, planner=planner, process_group=self.group)
        except CheckpointException as error:
            rank, (cause, _) = min(error.failures.items())
            raise BadCheckpoint(f"{self.shown} could not be loaded on process {rank}: {cause}") from error


def open_checkpoint(store: Store, name: str, peers: Peers, group: dist.ProcessGroup) -> ShardedReader:
    """Verifies every file, each on one process, before using any. Raises BadCheckpoint on all processes."""
    reader: ShardedReader | None = None
    problem = ""
    try:
        manifest = store.manifest(name)
        for file in sorted(manifest["files"])[peers.rank :: peers.world]:
            store.verify(name, file)
        reader = _open_sharded(store, name, manifest, group) if is_sharded(manifest) else _open_full(store, name, group)
    except BadCheckpoint as error:
        problem = str(error)
    problems = [each for each in peers.gather(problem) if each]
    if problems or reader is None:
        raise BadCheckpoint(problems[0])
    return reader


def _open_sharded(store: Store, name: str, manifest: Values, group: dist.ProcessGroup) -> ShardedReader:
    shown = store.where(name)
    if not isinstance(store, Folder):
        raise BadCheckpoint(f"{shown} is in the memory of several processes, which cannot read each other's pieces.")
    training = read_training(store.read(name, TRAINING), f"{shown}/{TRAINING}", own=store.is_own(manifest))
    table = read_piece_table(manifest, f"{shown}/{MANIFEST}")
    return ShardedReader(about_of(manifest), training, table, FileBlocks(store.folder / name), shown, group)


def _open_full(store: Store, name: str, group: dist.ProcessGroup) -> ShardedReader:
    contents = read_contents(store, name)
    optimizer_tensors, optimizer = _split_optimizer(contents.training[OPTIMIZER])
    tensors = {f"{model}/{key}": value for model, weights in contents.weights.items() for key, value in weights.items()}
    tensors |= optimizer_tensors
    training = {**contents.training, OPTIMIZER: optimizer}
    where = store.where(name)
    return ShardedReader(contents.about, training, single_pieces(tensors), MemoryBlocks(tensors), where, group)
