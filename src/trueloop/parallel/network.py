"""A network of GPUs on paper: two bandwidths (inside a node, between nodes) and two latencies. No torch.

Collectives are rings: every GPU sends to the next one (`ring_*`: bytes that one GPU sends for a message of given size).
A ring over several nodes leaves each node through the links of all its members at once: eight GPUs with 50 GB/s each
send 400 GB/s together.
"""

import math
from dataclasses import dataclass
from typing import final

__all__ = ["Group", "Network", "Sent", "ring_all_gather", "ring_all_reduce", "ring_reduce_scatter"]


def ring_all_reduce(message: float, gpus: int) -> float:
    """A reduce-scatter, and an all-gather of its results."""
    return ring_reduce_scatter(message, gpus) + ring_all_gather(message, gpus)


def ring_reduce_scatter(message: float, gpus: int) -> float:
    """`message`: what each GPU has, of which it keeps the sum of one part."""
    return message * (gpus - 1) / gpus


def ring_all_gather(message: float, gpus: int) -> float:
    """`message`: what each GPU has in the end."""
    return message * (gpus - 1) / gpus


@final
@dataclass(frozen=True, slots=True)
class Group:
    """GPUs that talk to each other: every `stride`-th one, `size` of them."""

    size: int
    stride: int = 1


@final
@dataclass(frozen=True, slots=True)
class Sent:
    """What one GPU sends in a step, and how long that takes if nothing else happens."""

    bytes: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: "Sent") -> "Sent":
        return Sent(self.bytes + other.bytes, self.seconds + other.seconds)


@final
@dataclass(frozen=True, slots=True)
class Network:
    """Bytes per second that each GPU sends, and seconds until the first byte arrives."""

    inside: float
    between: float
    node: int  # GPUs of one node
    latency: float = 0.0
    latency_between: float = 0.0

    def members(self, group: Group) -> int:
        """Of a group, in one node."""
        return max(1, min(group.size, self.node // group.stride))

    def rate(self, group: Group) -> float:
        members = self.members(group)
        if members == group.size:
            return self.inside
        across = members * self.between
        return min(self.inside, across) if members > 1 else across

    def around(self, group: Group) -> float:
        """Seconds of latency once around the ring: an all-gather, or a reduce-scatter."""
        nodes = math.ceil(group.size / self.members(group))
        far = nodes if nodes > 1 else 0
        return far * self.latency_between + max(0, group.size - 1 - far) * self.latency

    def up_and_down(self, group: Group) -> float:
        """Seconds of latency of an all-reduce: around each node, and through a tree of the nodes."""
        members = self.members(group)
        levels = math.ceil(math.log2(math.ceil(group.size / members)))
        return 2 * ((members - 1) * self.latency + levels * self.latency_between)

    def send(self, count: float, group: Group, rings: float = 0.0, trees: float = 0.0, hops: float = 0.0) -> Sent:
        """`count` bytes in so many all-gathers (`rings`), all-reduces (`trees`) and messages to one GPU (`hops`)."""
        if group.size < 2:
            return Sent()
        one = self.latency if self.members(group) == group.size else self.latency_between
        waits = rings * self.around(group) + trees * self.up_and_down(group) + hops * one
        return Sent(count, count / self.rate(group) + waits)
