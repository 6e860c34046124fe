"""The dispatcher's table of an operator: which keys have kernels, which fall through, which are composites."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from trueloop.results.document import Column, Table
from trueloop.torch_private.dispatch_table import call_keys, dispatch_table

__all__ = ["Entry", "Walk", "complete_table", "entries", "walk"]

_LINE: Final = re.compile(
    r"(?P<key>\w+): (?P<falls>fallthrough )?registered at (?P<where>.+?)(?: \[(?P<kind>[^\]]+)\])?\s*"
)
_CHECKOUT: Final = re.compile(r".*?/(?=(?:build/)?aten/|torch/csrc/|torch/[\w/]+\.py|caffe2/|functorch/)")
KINDS: Final = {
    "kernel": "kernel",
    "autograd kernel": "autograd kernel",
    "math kernel": "composite, differentiable through its parts",
    "default backend kernel": "composite, for every backend",
    "backend fallback": "fallback for all operators",
    "batched kernel": "composite, for vmap",
}
"""The dispatcher's words -> ours."""
SHOWN: Final = 6  # Keys of one kernel that are listed in the terminal


@dataclass(frozen=True, slots=True)
class Entry:
    """What the dispatcher calls for one key."""

    key: str
    kind: str  # "kernel", "math kernel" ..., in the dispatcher's words
    where: str  # File and line of the registration, in torch's own sources
    falls: bool

    @property
    def role(self) -> str:
        return "falls through" if self.falls else KINDS.get(self.kind, self.kind)

    @property
    def is_composite(self) -> bool:
        return not self.falls and KINDS.get(self.kind, "").startswith("composite")


def entries(name: str) -> dict[str, Entry]:
    """Key -> entry, for `aten::add.Tensor`. Keys without an entry raise when they are called."""
    found: dict[str, Entry] = {}
    for line in dispatch_table(name).splitlines():
        match = _LINE.fullmatch(line)
        if match:
            where = _CHECKOUT.sub("", match["where"], count=1)
            found[match["key"]] = Entry(match["key"], match["kind"] or "kernel", where, bool(match["falls"]))
    return found


def complete_table(name: str, table: dict[str, Entry]) -> tuple[Table, Table]:
    """Keys that share a kernel in one row; and, on pages, every key."""
    groups: dict[tuple[str, str], list[str]] = {}
    for entry in table.values():
        shared = entry.falls or entry.kind == "backend fallback"
        groups.setdefault((entry.role, "" if shared else entry.where), []).append(entry.key)
    order = ["kernel", "autograd kernel", *(role for role, _ in groups)]
    ranked = sorted(groups.items(), key=lambda item: order.index(item[0][0]))
    rows = tuple((role, _some(keys), where or "several files") for (role, where), keys in ranked)
    what, registered = Column("what"), Column("registered at")
    falls = sum(entry.falls for entry in table.values())
    composite = sum(entry.is_composite for entry in table.values())
    note = f"{len(table)} keys: {falls} fall through, {composite} lead to a composite."
    every = tuple((entry.key, entry.role, entry.where) for entry in table.values())
    return (
        Table(f"The dispatcher's table of {name}", (what, Column("keys"), registered), rows, note),
        Table("Every key", (Column("key", "name"), what, registered), every, show="page"),
    )


def _some(keys: list[str]) -> str:
    rest = len(keys) - SHOWN
    return ", ".join(keys[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


# -- one call --


@dataclass(frozen=True, slots=True)
class Walk:
    """The keys of one call, highest priority first."""

    steps: tuple[tuple[str, Entry | None, str], ...]

    @property
    def last(self) -> Entry | None:
        """Whose kernel computes the result, or calls other operations."""
        return self.steps[-1][1] if self.steps else None

    @property
    def has_autograd(self) -> bool:
        """Does an autograd kernel of the operation itself run?"""
        return any(key.startswith("Autograd") and not (entry is None or entry.falls or entry.is_composite)
                   for key, entry, _ in self.steps)  # fmt: skip

    def table(self, name: str, ran: Sequence[str] = (), untraced: str = "") -> Table:
        """`ran`: the keys whose kernels were seen to run, in their order. `untraced`: why none were."""
        rows = tuple((key, what, entry.where if entry else "") for key, entry, what in self._traced(ran))
        note = f"Computed from the key sets of the inputs and the dispatcher's table, not traced: {untraced}"
        if not untraced:
            note = (
                "Traced: for one call each kernel noted its key. Keys that fall through are skipped by the dispatcher."
            )
        title = f"Keys of this call to {name}, highest priority first"
        return Table(title, (Column("key"), Column("what happens"), Column("registered at")), rows, note)

    def _traced(self, ran: Sequence[str]) -> Iterator[tuple[str, Entry | None, str]]:
        """The computed steps; those whose kernels did not run say so, and others that ran follow."""
        for key, entry, what in self.steps:
            calls, falls = ran.count(key), entry is None or entry.falls
            if ran and not calls and not falls:
                yield key, entry, "did not run: the Python binding, or a kernel above it, excludes this key"
            else:
                yield key, entry, f"{what} ({calls} times)" if calls > 1 else what
        known = {key for key, _, _ in self.steps}
        yield from ((key, None, "ran too") for key in dict.fromkeys(ran) if key not in known)


def walk(table: dict[str, Entry], tensors: Iterable[Tensor]) -> Walk:
    """To the key whose kernel computes the result or calls other operations."""
    steps: list[tuple[str, Entry | None, str]] = []
    for key in call_keys(tensors):
        entry = table.get(key)
        if entry is None:
            steps.append((key, None, "no kernel: the call raises"))
            break
        if entry.falls:
            steps.append((key, entry, "falls through to the next key"))
        elif entry.is_composite:
            steps.append((key, entry, "composite: calls other operations, each dispatched again"))
            break
        elif key.startswith("Autograd"):
            steps.append((key, entry, "autograd kernel: records the backward where it is needed, then continues"))
        elif key == "ADInplaceOrView":
            steps.append((key, entry, "kernel: marks views and in-place writes, then continues"))
        elif key == "BackendSelect":
            steps.append((key, entry, "kernel: chooses the backend, then continues"))
        else:
            steps.append((key, entry, "kernel: computes the result"))
            break
    return Walk(tuple(steps))
