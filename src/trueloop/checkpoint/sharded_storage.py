"""Where torch.distributed.checkpoint puts pieces, and takes them from: safetensors and a sealed manifest instead of
pickles.

Its planners decide who writes what (a tensor that several hold is written once), and who reads which blocks at another
layout.
"""

from __future__ import annotations

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
from trueloop.checkpoint.sharded import Piece, Spread, file_of, group_of, listed
from trueloop.checkpoint.sharded_tensors import Blocks, dtype_of
from trueloop.checkpoint.store import Store, Writer
from trueloop.errors import BadCheckpoint

__all__ = ["PieceReader", "PieceWriter"]


@final
class PieceWriter(StorageWriter):
    """One checkpoint's. The coordinator opens the place before anybody writes, and seals it when all have written."""

    def __init__(self, store: Store, name: str, about: Mapping[str, Any], extra: Mapping[str, Writer]) -> None:
        """`extra`: files that the coordinator writes besides."""
        self.store, self.name, self.about, self.extra = store, name, about, extra
        self._coordinator = False
        self._files: dict[str, Mapping[str, Any]] = {}

    def reset(self, checkpoint_id: Any = None) -> None:
        """One is for one checkpoint: there is nothing to reset."""

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
            found = planner.resolve_data(item)
            assert isinstance(found, Tensor)
            assert name not in groups.get(group, ()), (
                f"a process holds one block of a tensor, and of {item.index.fqn} it holds two"
            )
            groups.setdefault(group, {})[name] = found.detach()
        files = {group: file_of(group, rank, world) for group in sorted(groups)}
        entries = {
            group: self.store.put(self.name, file, tensors_writer(groups[group])) for group, file in files.items()
        }
        results = [
            WriteResult(item.index, 0, (files[group], entries[group]))
            for item in plan.items
            for group in [group_of(item.index.fqn)[0]]
        ]
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        written = [result for each in results for result in each]
        where = {result.index: result.storage_data[0] for result in written}
        files = {**self._files, **dict(result.storage_data for result in written)}
        spreads = {key: _spread(key, held, where) for key, held in metadata.state_dict_metadata.items()}
        self.store.seal(self.name, {**self.about, **listed(spreads)}, files)

    @classmethod
    def validate_checkpoint_id(cls, _: Any) -> bool:
        """Names are the store's matter."""
        return False


def _spread(key: str, held: Any, where: Mapping[MetadataIndex, str]) -> Spread:
    assert isinstance(held, TensorStorageMetadata)
    pieces = tuple(
        Piece(where[MetadataIndex(key, chunk.offsets)], tuple(chunk.offsets), tuple(chunk.sizes))
        for chunk in held.chunks
    )
    return Spread(str(held.properties.dtype).removeprefix("torch."), tuple(held.size), pieces)


@final
class PieceReader(StorageReader):
    """Gives each process the blocks that its layout wants."""

    def __init__(self, spreads: Mapping[str, Spread], blocks: Blocks, shown: str) -> None:
        self.spreads, self.blocks, self.shown = spreads, blocks, shown
        self._pieces = {
            MetadataIndex(key, piece.start): piece for key, spread in spreads.items() for piece in spread.pieces
        }

    def reset(self, checkpoint_id: Any = None) -> None:
        """One is for one checkpoint: there is nothing to reset."""

    def read_metadata(self, *_: Any) -> Metadata:
        return Metadata({key: self._metadata(spread) for key, spread in self.spreads.items()})

    def _metadata(self, spread: Spread) -> TensorStorageMetadata:
        chunks = [ChunkStorageMetadata(torch.Size(piece.start), torch.Size(piece.size)) for piece in spread.pieces]
        return TensorStorageMetadata(TensorProperties(dtype_of(spread, self.shown)), torch.Size(spread.shape), chunks)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *_: Any, **__: Any) -> None:
        """The pieces are known already."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        for item in plan.items:
            key, piece = item.storage_index.fqn, self._pieces[item.storage_index]
            found = self.blocks.block(key, piece, tuple(item.storage_offsets), tuple(item.lengths))
            if found.dtype != dtype_of(
                self.spreads[key], self.shown
            ):  # which copy_ below would turn into another without a word
                raise BadCheckpoint(
                    f"{self.shown} is not to be trusted: {key} in {piece.file} is {found.dtype}, the manifest names another."
                )
            target = planner.resolve_tensor(item).detach()
            target.copy_(found)
            planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, _: Any) -> bool:
        """Names are the store's matter."""
        return False
