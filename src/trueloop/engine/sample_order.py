"""Which samples come when: a pure function of (seed, epoch), so a position is two numbers and a resume is exact."""

import hashlib

import torch
from torch import Tensor

__all__ = ["epoch_order", "micro_batch_sizes", "mix_seed", "steps_per_epoch"]


def mix_seed(*numbers: int) -> int:
    """One 63-bit seed from several numbers: similar numbers give unrelated seeds."""
    digest = hashlib.blake2b(",".join(map(str, numbers)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def epoch_order(samples: int, seed: int, epoch: int, labels: Tensor | None = None) -> Tensor:
    """All samples once, shuffled; with labels: as many draws, every class equally likely."""
    generator = torch.Generator().manual_seed(mix_seed(seed, epoch))
    if labels is None:
        return torch.randperm(samples, generator=generator)
    _, which, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    members, firsts = torch.argsort(which, stable=True), counts.cumsum(0) - counts
    drawn = torch.randint(len(counts), (samples,), generator=generator)
    within = (torch.rand(samples, dtype=torch.float64, generator=generator) * counts[drawn]).long()
    return members[firsts[drawn] + within]


def steps_per_epoch(samples: int, batch: int, drop_last: bool) -> int:
    """Optimizer steps of an epoch."""
    return samples // batch if drop_last else -(-samples // batch)


def micro_batch_sizes(samples: int, world: int, accumulate: int, batch: int) -> list[int]:
    """Sizes of the micro-batches of a rank's share of a step: even, and none larger than a full step's would be.
    A small last batch is cut into fewer parts, not smaller ones: BatchNorm must not be left with a single sample."""
    largest = -(-batch // (world * accumulate))
    count = -(-samples // largest)
    return [samples // count + (number < samples % count) for number in range(count)]
