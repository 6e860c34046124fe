"""What is launched, as a value: command, environment, processes, nodes, rendezvous. `elastic.py` runs it. No torch."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, final

from trueloop.errors import Misuse, did_you_mean

__all__ = ["NPROC_WORDS", "Machine", "Plan", "Rendezvous", "planned", "processes", "rendezvous_of"]

NPROC_WORDS: Final = ("auto", "gpu", "cpu")  # besides a number; auto: one process a GPU, or a core without GPUs
WAIT: Final = 300  # Seconds in which all nodes must have come: machines of a cluster start minutes apart
HIGHEST_PORT: Final = 65535


@final
@dataclass(frozen=True, slots=True)
class Machine:
    """What this machine has to offer."""

    cores: int
    gpus: int = 0


@final
@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where the nodes meet: at the node of rank 0."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """A launch on this node."""

    command: tuple[str, ...]  # What each process runs, after the interpreter: -m trueloop train digits
    nproc: int
    nnodes: int = 1
    node_rank: int = 0
    rendezvous: Rendezvous | None = None  # None: one node, which takes a free port
    restarts: int = 0
    wait: int = WAIT
    every_rank: bool = False  # Show what all processes print, not only the first of this node
    environment: Mapping[str, str] = field(default_factory=dict)  # What is added to that of the launcher
    said: tuple[str, ...] = ()  # What was decided, and why

    @property
    def world(self) -> int:
        return self.nproc * self.nnodes

    @property
    def ranks(self) -> range:
        """Those of this node."""
        return range(self.node_rank * self.nproc, (self.node_rank + 1) * self.nproc)

    @property
    def program(self) -> str:
        """As a person would type it."""
        words = self.command[1:] if self.command[:2] == ("-m", "trueloop") else ("python", *self.command)
        return shlex.join(words)

    def line(self) -> str:
        """All of it in one line."""
        many = "1 process" if self.nproc == 1 else f"{self.nproc} processes"
        node = f"node {self.node_rank} of {self.nnodes}, meeting at {self.rendezvous}"
        where = node if self.rendezvous else "this machine, on a free port"
        restarts = f", up to {self.restarts} restart{'s' * (self.restarts > 1)}" if self.restarts else ""
        return "; ".join([f"launch: {self.program} as {many} on {where}{restarts}", *self.said])

    def described(self) -> str:
        """For --dry-run: a row each."""
        given = self.environment
        rows = {
            "command": shlex.join(("python", *self.command)),
            "processes": f"{self.nproc} here, {self.world} in all",
            "ranks": f"{self.ranks[0]} to {self.ranks[-1]}" if self.nproc > 1 else str(self.ranks[0]),
            "node": f"{self.node_rank} of {self.nnodes}",
            "rendezvous": f"{self.rendezvous} (waits {self.wait} s)" if self.rendezvous else "127.0.0.1, a free port",
            "restarts": str(self.restarts),
            "environment": " ".join(f"{name}={value}" for name, value in sorted(given.items())) or "as it is",
        }
        width = max(map(len, rows))
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows.items())


def planned(
    command: tuple[str, ...],
    machine: Machine,
    *,
    nproc: str = "auto",
    nnodes: int = 1,
    node_rank: int | None = None,
    rendezvous: str | None = None,
    restarts: int = 0,
    wait: int = WAIT,
    every_rank: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Plan:
    """The requested launch, or a Misuse that says what to type. `environment`: the launcher's own."""
    given = environment or {}
    _refuse_numbers(nnodes, restarts, wait)
    number = processes(nproc, machine)
    rank, place = _place(nnodes, node_rank, rendezvous)
    threads, said = _threads(number, machine, given)
    more = {"CUDA_VISIBLE_DEVICES": ""} if nproc == "cpu" and machine.gpus else {}
    notes = [said]
    if number > machine.cores and not machine.gpus:
        cores = f"{machine.cores} core{'s' * (machine.cores > 1)}"
        notes.append(f"{number} processes share {cores}: more processes than cores gain nothing")
    return Plan(command, number, nnodes, rank, place, restarts, wait, every_rank, {**threads, **more}, tuple(notes))


def processes(word: str, machine: Machine) -> int:
    """Number of processes on this node."""
    if word in NPROC_WORDS:
        if word == "gpu" and not machine.gpus:
            raise Misuse("--nproc gpu: torch finds no GPU here. Nothing was run: type --nproc cpu, or a number.")
        return machine.cores if word == "cpu" else machine.gpus or machine.cores
    if not word.isdecimal():
        hint = f"{did_you_mean(word, NPROC_WORDS)} Nothing was run: type a number, or {', '.join(NPROC_WORDS)}."
        raise Misuse(f"--nproc {word!r} is not a number of processes.{hint}")
    if int(word) == 0:
        raise Misuse("--nproc 0: at least one process is needed. Nothing was run: auto starts one per GPU or core.")
    if machine.gpus and int(word) > machine.gpus:
        raise Misuse(
            f"--nproc {word}: this machine has {machine.gpus} GPU{'s' * (machine.gpus > 1)}, and two processes must "
            f"not share one. Nothing was run: type --nproc {machine.gpus}, or CUDA_VISIBLE_DEVICES= for the CPU."
        )
    return int(word)


def rendezvous_of(text: str) -> Rendezvous:
    """HOST:PORT, or [ADDRESS]:PORT for one with colons."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or (":" in host and not text.startswith("[")):
        cure = "type HOST:PORT of the first node, as in --rendezvous node0:29500"
        raise Misuse(f"--rendezvous {text} has no port. Nothing was run: {cure}.")
    if not 0 < int(port) <= HIGHEST_PORT:
        raise Misuse(f"--rendezvous {text}: {port} is not a valid port (1 to {HIGHEST_PORT}). Nothing was run.")
    return Rendezvous(host, int(port))


def _refuse_numbers(nnodes: int, restarts: int, wait: int) -> None:
    if nnodes < 1:
        raise Misuse(f"--nnodes {nnodes} is not a valid number of nodes (1 or more). Nothing was run.")
    if restarts < 0:
        raise Misuse(f"--restarts {restarts} is not a valid number of restarts (0 or more). Nothing was run.")
    if wait < 1:
        raise Misuse(f"--wait {wait} is not a valid number of seconds (1 or more; default {WAIT}). Nothing was run.")


def _place(nnodes: int, node_rank: int | None, rendezvous: str | None) -> tuple[int, Rendezvous | None]:
    """This node's rank, and the rendezvous."""
    if nnodes == 1:
        if node_rank:
            cure = f"type --nnodes {node_rank + 1} or more, or leave it out"
            raise Misuse(f"--node-rank {node_rank} with one node. Nothing was run: {cure}.")
        return 0, None if rendezvous is None else rendezvous_of(rendezvous)
    if node_rank is None or not 0 <= node_rank < nnodes:
        wrong = "--node-rank is missing" if node_rank is None else f"There is no node {node_rank} of {nnodes}"
        raise Misuse(f"{wrong}. Nothing was run: type --node-rank 0 on the first node, up to {nnodes - 1} on the last.")
    if rendezvous is None:
        cure = "type --rendezvous HOST:PORT of the first node, the same on all nodes"
        raise Misuse(f"{nnodes} nodes need a rendezvous. Nothing was run: {cure}.")
    return node_rank, rendezvous_of(rendezvous)


def _threads(number: int, machine: Machine, given: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Divides the cores: processes that each use all cores are slower than one. The user's own setting stays."""
    if "OMP_NUM_THREADS" in given:
        return {}, f"OMP_NUM_THREADS={given['OMP_NUM_THREADS']} as you set it"
    each = max(1, machine.cores // number)
    note = f"OMP_NUM_THREADS={each} each ({machine.cores} core{'s' * (machine.cores > 1)})"
    return {"OMP_NUM_THREADS": str(each)}, note
