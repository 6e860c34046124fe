"""Checkpoints in pieces, made without any process: what two would have written."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trueloop.checkpoint.contents import TRAINING, tensors_writer
from trueloop.checkpoint.plan import name_of
from trueloop.checkpoint.sharded import Piece, TensorPieces, file_of, group_of, piece_table
from trueloop.checkpoint.store import Store

__all__ = ["WHOLES", "cut_in_two", "write_pieces"]

WHOLES: dict[str, Tensor] = {
    "model/layer.weight": torch.arange(15.0).reshape(5, 3),
    "model/layer.bias": torch.arange(5).to(torch.bfloat16),
    "model/count": torch.tensor(7),
    "model/one": torch.tensor([3.0]),
    "ema/layer.weight": -torch.arange(15.0).reshape(5, 3),
    "optimizer/0.exp_avg": torch.arange(15.0).reshape(5, 3) / 7,
    "optimizer/0.step": torch.tensor(4.0),
}


def cut_in_two(key: str, whole: Tensor) -> tuple[TensorPieces, dict[str, Tensor]]:
    """Along the first dimension, as fully_shard does: the second may get nothing. What has no dimension lies with the
    second."""
    group, _ = group_of(key)
    files = [file_of(group, rank, 2) for rank in (0, 1)]
    blocks = {files[1]: ((), whole)} if not whole.ndim else _halves(files, whole)
    pieces = tuple(Piece(file, start, tuple(part.shape)) for file, (start, part) in blocks.items())
    return TensorPieces(str(whole.dtype).removeprefix("torch."), tuple(whole.shape), pieces), {
        file: part for file, (_, part) in blocks.items()
    }


def _halves(files: list[str], whole: Tensor) -> dict[str, tuple[tuple[int, ...], Tensor]]:
    half = (len(whole) + 1) // 2
    rest = (0,) * (whole.ndim - 1)
    return {files[0]: ((0, *rest), whole[:half]), files[1]: ((min(half, len(whole)), *rest), whole[half:])}


def write_pieces(store: Store, step: int, wholes: dict[str, Tensor] = WHOLES, **changes: Any) -> str:
    """`changes`: to the manifest."""
    name = name_of(step)
    spreads, files = {}, dict[str, dict[str, Tensor]]()
    for key, whole in wholes.items():
        spreads[key], parts = cut_in_two(key, whole)
        for file, part in parts.items():
            files.setdefault(file, {})[group_of(key)[1]] = part
    small = {
        "state": {"step": step},
        "optimizer": {"state": {0: {"word": "plain"}}, "param_groups": [{"params": [0], "lr": 0.1}]},
    }
    store.begin(name)
    entries = {file: store.put(name, file, tensors_writer(held)) for file, held in files.items()}
    entries[TRAINING] = store.put(name, TRAINING, lambda out: torch.save(small, out))
    store.seal(name, {"step": step, "best_step": None, **piece_table(spreads), **changes}, entries)
    return name
