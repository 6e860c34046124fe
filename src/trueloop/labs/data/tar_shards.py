"""tar-shards: Why are large datasets kept in tar files, and how do several workers share them?

A million small files are a million opens, and on a network disk each is a round trip. A tar file is the same files one
behind another: one open, and a read that only goes forward. The price: no access by index, so samples are shuffled
among shards and within a buffer, and workers must share the shards themselves.

You will write both forms, count opens, and see each sample twice where workers do not share.
"""

import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from trueloop.labs.interleaved import interleaved
from trueloop.labs.lab import Lab, Page

__all__ = ["LAB"]

SAMPLES, SHARDS, SIZE = 1200, 4, 2048


def write(folder: Path) -> tuple[list[Path], list[Path]]:
    """The same samples as single files and as tar files."""
    files = [folder / f"{number:05}.bin" for number in range(SAMPLES)]
    for number, file in enumerate(files):
        file.write_bytes(number.to_bytes(4, "little") * (SIZE // 4))
    shards = [folder / f"shard-{shard}.tar" for shard in range(SHARDS)]
    for shard, path in enumerate(shards):
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            for file in files[shard::SHARDS]:
                tar.add(file, arcname=file.name)
    return files, shards


class Shards(IterableDataset[int]):
    """Sample by sample, shuffled in a buffer; `share`: each worker reads its own shards only."""

    def __init__(self, shards: list[Path], share: bool, buffer: int = 0) -> None:
        self.shards, self.share, self.buffer = shards, share, buffer

    def __iter__(self) -> Iterator[int]:
        worker, shards = get_worker_info(), self.shards
        if worker is not None and self.share:
            shards = shards[worker.id :: worker.num_workers]
        draws, waiting = torch.Generator().manual_seed(0), list[int]()
        for shard in shards:
            with tarfile.open(shard, "r|") as tar:  # "|": forward only, as from a network
                for member in tar:
                    content = tar.extractfile(member)
                    assert content is not None
                    waiting.append(int.from_bytes(content.read()[:4], "little"))
                    if len(waiting) > self.buffer:
                        at = int(torch.randint(len(waiting), (), generator=draws))
                        waiting[at], waiting[-1] = waiting[-1], waiting[at]
                        yield waiting.pop()
        yield from waiting


def displacement(order: list[int], straight: list[int]) -> float:
    """How far from its place in the files a sample comes, as a share of all; a full shuffle has 1/3."""
    place = {sample: at for at, sample in enumerate(straight)}
    return sum(abs(place[sample] - at) for at, sample in enumerate(order)) / len(order) ** 2


@dataclass(frozen=True)
class Measured:
    seconds: dict[str, float]
    tar_overhead: float  # bytes of the shards per byte of samples
    equal: bool
    seen: dict[str, list[int]]  # sharing or not: how often samples come -> number of samples
    moved: dict[int, float]  # buffer -> displacement


def measure() -> Measured:
    with tempfile.TemporaryDirectory() as name:
        files, shards = write(Path(name))

        def read_tar() -> int:
            return sum(len(path.read_bytes()) for path in shards)

        times = interleaved({"files": lambda: [file.read_bytes() for file in files], "tar files": read_tar}, rounds=9)
        straight = list(Shards(shards, share=True))
        seen = {}
        for share in (False, True):
            batches = list(DataLoader(Shards(shards, share), batch_size=None, num_workers=2))
            seen["shared" if share else "not shared"] = sorted(set(Counter(map(int, batches)).values()))
        moved = {size: displacement(list(Shards(shards, True, size)), straight) for size in (0, 50, 400)}
        overhead = sum(path.stat().st_size for path in shards) / (SAMPLES * SIZE)
    return Measured(times, overhead, sorted(straight) == list(range(SAMPLES)), seen, moved)


def answer(page: Page, measured: Measured) -> None:
    rows = [
        (f"{SAMPLES} files", SAMPLES, measured.seconds["files"] * 1e3),
        (f"{SHARDS} tar files", SHARDS, measured.seconds["tar files"] * 1e3),
    ]
    note = f"{SIZE} bytes a sample, from this machine's cache; a tar header of 512 bytes makes it {measured.tar_overhead:.2f} times as large."  # noqa: E501
    page.table("All samples read once", ("form", "opens", "milliseconds"), rows, note)
    page.table("Shuffled in a buffer", ("buffer", "mean displacement"), measured.moved.items())
    page.says("The tar files hold the same samples.", measured.equal)
    ratio = measured.seconds["files"] / measured.seconds["tar files"]
    faster = f"Fewer opens are faster, even from a cache: {ratio:.1f} times here; on a network disk it is far more."
    page.says(faster, ratio > 1)
    page.says("Two workers that do not share shards give every sample twice.", measured.seen["not shared"] == [2])
    page.says("With `shards[worker.id :: worker.num_workers]` each comes once.", measured.seen["shared"] == [1])
    moved = measured.moved
    more = moved[0] == 0 and moved[0] < moved[50] < moved[400] < 1 / 3
    page.says("A shuffle buffer mixes only as far as it is large: shuffle the order of the shards, too.", more)


LAB = Lab(code=(write, Shards, displacement), measure=measure, answer=answer)
