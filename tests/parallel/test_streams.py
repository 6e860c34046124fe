"""Tar shards over several processes, by counting: every sample is trained on once in an epoch, none twice, none never,
also by a run that was killed in the middle of one. And shards that no memory holds."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import FileStore

from tests.conftest import in_child
from tests.engine.small import SMALL, Of, begin
from trueloop.checkpoint.store import Folder
from trueloop.data.shards import Shards
from trueloop.data.source import Splits
from trueloop.engine.loop import Loop
from trueloop.engine.state import State
from trueloop.engine.train import train
from trueloop.recipe.recipe import Recipe

UNEVEN = (1, 17, 5, 11, 3)
"""Samples in each shard: one shard has a single one, and no number of processes or workers divides them."""
SAMPLES, BATCH, EPOCHS = sum(UNEVEN), 8, 2
STEPS = -(-SAMPLES // BATCH)
KILLED_AT = 8
"""Steps that the first attempt begins: the third batch of the second epoch is its last. It saves after every third
step."""


def net() -> nn.Module:
    return nn.Linear(1, 2)


def shards_in(folder: Path) -> str:
    """Written front to back as WebDataset writes them: a folder in the key, its owner in the heads, members of a sample
    side by side."""
    folder.mkdir(exist_ok=True)
    number = 0
    for shard, samples in enumerate(UNEVEN):
        with tarfile.open(folder / f"s-{shard:04d}.tar", "w|") as tar:
            for _ in range(samples):
                array = io.BytesIO()
                np.save(array, np.array([number], dtype=np.float32))
                for ending, data in (("cls", str(number % 2).encode()), ("npy", array.getvalue()), ("json", b"{}")):
                    member = tarfile.TarInfo(f"set/{number:06d}.{ending}")
                    member.size, member.mode, member.uname, member.gname = len(data), 0o444, "bigdata", "bigdata"
                    tar.addfile(member, io.BytesIO(data))
                number += 1
    return str(folder / f"s-{{0000..{len(UNEVEN) - 1:04d}}}.tar")


def recipe(folder: Path, workers: int) -> Recipe:
    splits = Splits(Shards(shards_in(folder / "shards"), inputs="npy"))
    return replace(SMALL, model=net, data=Of(splits), batch=BATCH, epochs=EPOCHS, workers=workers, save_every=3)


# -- several processes, of which one may be killed --


def attempt(folder: Path, what: Recipe, world: int, name: str, killed_at: int = 0) -> list[int]:
    """Trains, from the newest checkpoint if there is one; what each process trains on is in `name-RANK`. Their exit
    codes."""
    children = []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            _be(folder, what, rank, world, name, killed_at)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def _be(folder: Path, what: Recipe, rank: int, world: int, name: str, killed_at: int) -> None:
    code = 9
    try:
        signal.alarm(60)
        group = FileStore(str(folder / f"{name}-store"), world)
        dist.init_process_group("gloo", store=group, rank=rank, world_size=world, timeout=timedelta(seconds=30))
        store = Folder(folder / "checkpoints")
        loop, _, _ = begin(what, store)
        if store.names():
            assert loop.recovery.go_back()
        with (folder / f"{name}-{rank}").open("w", encoding="utf-8") as written:
            _write_down(loop, written, rank, killed_at)
            train(loop)
        code = 0
    finally:
        os._exit(code)


def _write_down(loop: Loop, file: Any, rank: int, killed_at: int) -> None:
    """What counts of each step, when the loop takes it. The last process kills itself in the middle of a step, the
    others lose it."""
    windows = loop.parts.batches.windows

    def noted(state: State) -> Iterator[Any]:
        for begun, window in enumerate(windows(state), start=1):
            own = window.micros[: len(window.micros) - window.idle]
            samples = [int(number) for micro in own for number in micro.inputs[:, 0].tolist()]
            file.write(json.dumps([state.epoch, state.batch, samples]) + "\n")
            file.flush()
            if begun == killed_at and rank == loop.parts.peers.world - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            yield window

    loop.parts.batches.windows = noted  # type: ignore[method-assign]


def seen(folder: Path, name: str, world: int) -> dict[tuple[int, int], list[list[int]]]:
    """(epoch, batch) -> what each process trained on."""
    found: dict[tuple[int, int], list[list[int]]] = {}
    for rank in range(world):
        for line in (folder / f"{name}-{rank}").read_text(encoding="utf-8").splitlines():
            epoch, batch, samples = json.loads(line)
            found.setdefault((epoch, batch), []).append(samples)
    return found


def assert_each_once(positions: dict[tuple[int, int], list[list[int]]]) -> None:
    assert sorted(positions) == [(epoch, batch) for epoch in range(EPOCHS) for batch in range(STEPS)]
    for epoch in range(EPOCHS):
        counted = Counter(n for (of, _), shares in positions.items() if of == epoch for share in shares for n in share)
        assert counted == Counter(range(SAMPLES)), f"epoch {epoch}"
    orders = [[sorted(chain(*positions[epoch, batch])) for batch in range(STEPS)] for epoch in range(EPOCHS)]
    assert orders[0] != orders[1], "shuffled anew"


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("world", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
def test_every_sample_is_trained_on_once_an_epoch_also_by_a_run_that_was_killed_within_one(
    tmp_path: Path, world: int, workers: int
) -> None:
    what = recipe(tmp_path, workers)
    codes = attempt(tmp_path, what, world, "first", KILLED_AT)
    assert codes[-1] == -signal.SIGKILL
    assert 0 not in codes, "who lost another does not finish"
    assert attempt(tmp_path, what, world, "second") == [0] * world
    before, after = seen(tmp_path, "first", world), seen(tmp_path, "second", world)
    assert max(before) == (1, KILLED_AT - 1 - STEPS)
    assert min(after) in [(0, 3), (1, 1)], (
        "from the newest checkpoint that was whole when it was killed, in the middle of an epoch"
    )
    assert_each_once(before | after)
    for position in before.keys() & after.keys() - {max(before)}:
        assert before[position] == after[position], "done again with the same samples, each on the same process"


def test_who_goes_on_with_fewer_processes_and_other_workers_misses_nothing(tmp_path: Path) -> None:
    attempt(tmp_path, recipe(tmp_path, 0), 3, "first", KILLED_AT)
    assert attempt(tmp_path, recipe(tmp_path, 2), 2, "second") == [0, 0]
    assert_each_once(seen(tmp_path, "first", 3) | seen(tmp_path, "second", 2))


def test_processes_share_each_batch_and_not_the_shards(tmp_path: Path) -> None:
    """A shard of one sample keeps nobody waiting: the batch is what is split."""
    assert attempt(tmp_path, recipe(tmp_path, 0), 2, "only") == [0, 0]
    sizes = [[len(share) for share in shares] for _, shares in sorted(seen(tmp_path, "only", 2).items())]
    assert sizes == [*([[4, 4]] * 4), [3, 2], *([[4, 4]] * 4), [3, 2]]


# -- more than a memory holds --

HUGE = 1 << 30


def _sparse(path: Path, members: int) -> Path:
    """A tar of gigabytes that takes no disk: the huge members are holes."""
    with path.open("wb") as file:
        for number in range(members):
            for ending, size, data in (("cls", 1, b"1"), ("bin", HUGE, b"")):
                member = tarfile.TarInfo(f"{number:03d}.{ending}")
                member.size = size
                file.write(member.tobuf(tarfile.USTAR_FORMAT))
                start = file.tell()
                file.write(data)
                file.seek(start + -(-size // 512) * 512)
        file.truncate(file.tell() + 1024)
    return path


def _length(data: bytes) -> Tensor:
    return torch.tensor([float(len(data))])


def test_a_shard_larger_than_memory_is_read_by_place_and_never_whole(tmp_path: Path) -> None:
    path = _sparse(tmp_path / "s.tar", members=16)
    assert path.stat().st_size > 16 * HUGE

    def work() -> tuple[int, list[int], int]:
        source = Shards(path, inputs="bin", decoders={"bin": _length})
        labels = source.labels()
        assert labels is not None
        return len(source), labels.tolist(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = in_child(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    samples, labels, kilobytes = in_child(work)
    assert (samples, labels) == (16, [1] * 16)
    assert kilobytes - before < 64 * 1024, "kilobytes: the heads are read, and the members that are asked for"
