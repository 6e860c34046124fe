"""Several processes and batches that are read one after another: no two processes may train on the same samples.

A stream is asked in each process, and gives each its own batches. A loader without a DistributedSampler gives all
processes the same batches, and each takes its share of every batch. Which of the two holds is measured, not believed.
"""

import zlib
from typing import Any, Final, final

import torch

from trueloop.errors import BadData
from trueloop.measure.tensors import tensors_in
from trueloop.parallel.peers import Peers

__all__ = ["OwnBatches", "check_same_batch", "share_of"]

COMPARED: Final = 8  # Batches of a stream that must not all be the same: some environments begin alike


def share_of(samples: int, peers: Peers) -> tuple[int, int]:
    """First and last + 1 of a batch's samples that are this process's: as torch.tensor_split has it."""
    size, more = divmod(samples, peers.world)
    low = peers.rank * size + min(peers.rank, more)
    return low, low + size + (peers.rank < more)


def check_same_batch(batch: Any, whose: str, peers: Peers) -> None:
    """All processes call this with the batch that each has read; raises BadData in all of them if they differ."""
    if len(set(peers.gather(_digest(batch)))) > 1:
        raise BadData(
            f"{peers.world} processes read different batches from {whose}, so their shares would overlap: it splits "
            "its samples by process itself, or draws random numbers that are not seeded. The run stops: return it "
            "without that split, and each process takes its share of every batch; or return a trueloop.Stream, of "
            "which each process has one."
        )


@final
class OwnBatches:
    """Compares the first batches of the streams of several processes. All processes call `check` together."""

    def __init__(self, name: str, peers: Peers) -> None:
        self.name, self.peers = name, peers
        self._left = COMPARED if peers.world > 1 else 0

    def check(self, batch: Any) -> None:
        """Raises BadData in all processes if two of them have got the same batches so far."""
        if not self._left:
            return
        digests = self.peers.gather(_digest(batch))
        if 0 in digests or len(set(digests)) == len(digests):  # no tensors, or all different
            self._left = 0
            return
        self._left -= 1
        if not self._left:
            raise BadData(
                f"{self.peers.world} processes got the same {COMPARED} batches from their streams {self.name}: they "
                "train on the same data. The run stops: draw the batches from torch's, NumPy's or Python's global "
                "random numbers, which differ between processes, or select them by torch.distributed.get_rank()."
            )


def _digest(batch: Any) -> int:
    """Of all its tensors; 0: it has none."""
    found = 0
    for tensor in tensors_in(batch):
        flat = (torch.view_as_real(tensor) if tensor.is_complex() else tensor).detach().cpu().reshape(-1)
        found = zlib.crc32(flat.contiguous().view(torch.uint8).numpy().tobytes(), found + 1)
    return found
