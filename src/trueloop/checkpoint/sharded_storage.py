"""Storage for torch.distributed.checkpoint: safetensors files and a hashed manifest instead of pickles.

torch's planners decide which process writes what (a replicated tensor is written once) and which process reads which
blocks for a different layout.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

from trueloop.checkpoint.contents import tensors_writer
from trueloop.checkpoint.sharded import Piece, TensorPieces, file_of, group_of, piece_table
from trueloop.checkpoint.sharded_tensors import Blocks, dtype_of
from trueloop.checkpoint.store import Store, Writer
from trueloop.errors import BadCheckpoint

__all__ = ["PieceReader", "PieceWriter"]


@final
class PieceWriter(StorageWriter):
    """Writes one checkpoint. The coordinator creates the folder first, and writes the manifest when all are done."""

    def __init__(self, store: Store, name: str, about: Mapping[str, Any], extra: Mapping[str, Writer]) -> None:
        """`extra`: additional files that the coordinator writes."""
        self.store, self.name, self.about, self.extra = store, name, about, extra
        self._coordinator = False
        self._files: dict[str, Mapping[str, Any]] = {}

    def reset(self, checkpoint_id: Any = None) -> None:
        """Nothing to reset: a writer is for one checkpoint."""

    def set_up_storage_writer(self, is_coordinator: bool, *_: Any, **__: Any) -> None:
        self._coordinator = is_coordinator
        if is_coordinator:
            self.store.begin(self.name)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return [replace(plan, storage_data=(rank, len(plans))) for rank, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        rank, world = plan.storage_data
        if self._coordinator:
            self._files = {file: self.store.put(self.name, file, writer) for file, writer in self.extra.items()}
        groups: dict[str, dict[str, Tensor]] = {}
        for item in plan.items:
            group, name = group_of(item.index.fqn)
            block = planner.resolve_data(item)
            assert isinstance(block, Tensor)
            assert name not in groups.get(group, ()), f"this process holds two blocks of {item.index.fqn}, not one"
            groups.setdefault(group, {})[name] = block.detach()
        written = {}
        for group in sorted(groups):
            file = file_of(group, rank, world)
            written[group] = (file, self.store.put(self.name, file, tensors_writer(groups[group])))
        done: Future[list[WriteResult]] = Future()
        done.set_result([WriteResult(item.index, 0, written[group_of(item.index.fqn)[0]]) for item in plan.items])
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        written = [result for each in results for result in each]
        where = {result.index: result.storage_data[0] for result in written}
        files = {**self._files, **dict(result.storage_data for result in written)}
        tensors = {key: _tensor_pieces(key, held, where) for key, held in metadata.state_dict_metadata.items()}
        self.store.seal(self.name, {**self.about, **piece_table(tensors)}, files)

    @classmethod
    def validate_checkpoint_id(cls, _: Any) -> bool:
        """The store names checkpoints, not torch."""
        return False


def _tensor_pieces(key: str, held: Any, where: Mapping[MetadataIndex, str]) -> TensorPieces:
    assert isinstance(held, TensorStorageMetadata)
    files = [where[MetadataIndex(key, chunk.offsets)] for chunk in held.chunks]
    blocks = zip(files, held.chunks, strict=True)
    pieces = tuple(Piece(file, tuple(chunk.offsets), tuple(chunk.sizes)) for file, chunk in blocks)
    return TensorPieces(str(held.properties.dtype).removeprefix("torch."), tuple(held.size), pieces)


@final
class PieceReader(StorageReader):
    """Gives each process the blocks that its layout needs."""

    def __init__(self, table: Mapping[str, TensorPieces], blocks: Blocks, shown: str) -> None:
        self.table, self.blocks, self.shown = table, blocks, shown
        self._pieces = {MetadataIndex(key, piece.start): piece for key, each in table.items() for piece in each.pieces}

    def reset(self, checkpoint_id: Any = None) -> None:
        """Nothing to reset: a reader is for one checkpoint."""

    def read_metadata(self, *_: Any) -> Metadata:
        return Metadata({key: self._metadata(tensor) for key, tensor in self.table.items()})

    def _metadata(self, tensor: TensorPieces) -> TensorStorageMetadata:
        chunks = [ChunkStorageMetadata(torch.Size(piece.start), torch.Size(piece.size)) for piece in tensor.pieces]
        return TensorStorageMetadata(TensorProperties(dtype_of(tensor, self.shown)), torch.Size(tensor.shape), chunks)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *_: Any, **__: Any) -> None:
        """The pieces are known already."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        for item in plan.items:
            key, piece = item.storage_index.fqn, self._pieces[item.storage_index]
            block = self.blocks.block(key, piece, tuple(item.storage_offsets), tuple(item.lengths))
            expected = dtype_of(self.table[key], self.shown)
            if block.dtype != expected:  # copy_ would convert it silently
                held = f"{key} in {piece.file} is {block.dtype}"
                raise BadCheckpoint(f"{self.shown} is invalid: {held}, the manifest says {expected}.")
            target = planner.resolve_tensor(item).detach()
            target.copy_(block)
            planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, _: Any) -> bool:
        """The store names checkpoints, not torch."""
        return False
