"""Queries the ranks on other machines when those of this one make no progress.

The first rank of each machine listens, and answers with the facts of all its ranks. It publishes its address once, in
the rendezvous store; nothing is sent while a run makes progress. The answer, or the kind of failure, shows what
happened: no connection (network or machine down), connection refused (the process has ended), no answer (it is
stopped). Only machines that have answered once are queried: behind a firewall, silence means nothing.
"""

import contextlib
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Final, Literal, Self, final

from torch.distributed import DistError

from trueloop.doctor.ranks import Rank
from trueloop.event import CollectivesCalled, Event, RankFact, RankStalled
from trueloop.parallel.route import route_to
from trueloop.run import event_from, event_to

__all__ = ["LONGEST_QUERY", "RemoteRanks", "remote_facts"]

FILE: Final = "remote"  # In the shared folder of this machine's ranks: the answers of the other machines
ANSWER_WITHIN: Final = 3.0  # Seconds for a connection, and for an answer: a lost packet is sent again after one
LONGEST_QUERY: Final = 2 * ANSWER_WITHIN  # Seconds until all have answered or failed
GREETING: Final = 60.0  # Seconds in which the machines exchange their addresses
STALE: Final = 5.0  # Seconds after which an answer is out of date, at least
AT_ONCE: Final = 16
LOST_FOR: Final = 0.4  # Fraction of --hang-after that a machine must be unreachable: queries begin after half of it
SILENT_FOR: Final = 0.9  # Fraction of --hang-after for a machine that does not answer: a library may block Python

Trouble = Literal["unreachable", "silent", "ended"]


@final
@dataclass(frozen=True, slots=True)
class _Machine:
    """A machine, and where its first rank listens."""

    number: int
    ranks: tuple[int, ...]
    address: str
    port: int
    token: str  # Required in a query

    def __str__(self) -> str:
        return f"node {self.number} ({self.address})"


@final
@dataclass(frozen=True, slots=True)
class _Missed:
    """A query without an answer."""

    since: float
    trouble: Trouble
    reason: str


class _NoAnswer(Exception):
    """A query failed."""

    def __init__(self, trouble: Trouble, reason: str) -> None:
        super().__init__(reason)
        self.trouble: Trouble = trouble


_Facts = Callable[[], Iterable[Event]]


@final
class RemoteRanks(threading.Thread):
    """On the first rank of a machine: answers queries, and sends them."""

    def __init__(self, me: Rank, facts: _Facts, place: socket.socket, environment: Mapping[str, str]) -> None:
        super().__init__(name="trueloop: answer other machines", daemon=True)
        self._me, self._facts, self._place, self._environment = me, facts, place, environment
        own = tuple(range(me.first, me.first + me.peers))
        address, port = place.getsockname()[:2]
        self._here = _Machine(int(environment["GROUP_RANK"]), own, address, port, secrets.token_hex(16))
        self._others: dict[int, _Machine] = {}
        self._missed: dict[int, _Missed] = {}
        self._over = threading.Event()

    @classmethod
    def of(cls, me: Rank, facts: _Facts, environment: Mapping[str, str] = os.environ) -> Self | None:
        """None without other machines, or if this is not the first rank of its machine."""
        several = int(environment.get("GROUP_WORLD_SIZE", "1")) > 1 and "GROUP_RANK" in environment
        if not several or me.number != me.first or "MASTER_PORT" not in environment:
            return None
        route = route_to(environment.get("MASTER_ADDR", ""))
        address = "127.0.0.1" if route is None else route.address  # without a route, all nodes are on this machine
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return cls(me, facts, socket.create_server((address, 0), family=family, backlog=1024), environment)

    # -- answering --

    def run(self) -> None:
        threading.Thread(target=self._exchange_addresses, name="trueloop: find other machines", daemon=True).start()
        while not self._over.is_set():
            try:
                caller, _ = self._place.accept()
            except OSError:  # closed: the run is over
                return
            with caller:
                self._answer(caller)

    def close(self) -> None:
        self._over.set()
        with contextlib.suppress(OSError):  # nothing is connected
            self._place.shutdown(socket.SHUT_RDWR)  # wakes up accept()
        self._place.close()

    def _answer(self, caller: socket.socket) -> None:
        """Ignores unknown clients, and clients that disconnect."""
        caller.settimeout(ANSWER_WITHIN)
        try:
            if caller.recv(64).decode("ascii", "replace") == self._here.token:
                caller.sendall(json.dumps([event_to(fact) for fact in self._facts()]).encode())
        except OSError:
            return

    def _exchange_addresses(self) -> None:
        """Publish where this machine listens, and find the others."""
        said = self._environment
        run, attempt = said.get("TORCHELASTIC_RUN_ID", ""), said.get("TORCHELASTIC_RESTART_COUNT", "0")
        name = f"trueloop/remote/{run}/{attempt}/{self._me.folder.name.rpartition('-')[2]}"
        until = time.monotonic() + GREETING
        from trueloop.torch_private.distributed import TCPStore  # lazy: torch may be built without torch.distributed

        try:
            within = timedelta(seconds=ANSWER_WITHIN)
            address, port = said["MASTER_ADDR"], int(said["MASTER_PORT"])
            store = TCPStore(address, port, is_master=False, timeout=within, wait_for_workers=False)
            store.set(f"{name}/{self._here.number}", json.dumps(asdict(self._here)))
            wanted = [number for number in range(int(said["GROUP_WORLD_SIZE"])) if number != self._here.number]
            while wanted and time.monotonic() < until and not self._over.wait(0.2):
                for number in [each for each in wanted if store.check([f"{name}/{each}"])]:
                    self._add(json.loads(store.get(f"{name}/{number}")))
                    wanted.remove(number)
        except DistError:
            return  # without a store the other machines stay unknown, and the note says so

    def _add(self, fields: dict[str, object]) -> None:
        machine = _Machine(**{**fields, "ranks": tuple(fields["ranks"])})  # type: ignore[arg-type]
        try:
            _query(machine)
        except _NoAnswer:
            return
        self._others[machine.number] = machine

    # -- querying --

    def query(self) -> None:
        """Query every machine, and write the answers and failures for all ranks of this one."""
        machines = list(self._others.values())
        if not machines:
            return
        with ThreadPoolExecutor(min(AT_ONCE, len(machines))) as several:
            answers = dict(zip(machines, several.map(self._query, machines), strict=True))
        facts = [event_to(fact) for heard in answers.values() for fact in heard]
        silent = [(machine, self._missed[machine.number]) for machine in machines if machine.number in self._missed]
        missed = [{**asdict(query), "machine": str(machine), "ranks": machine.ranks} for machine, query in silent]
        self._me.put(FILE, json.dumps({"at": time.monotonic(), "facts": facts, "missed": missed}).encode())

    def clear(self) -> None:
        """This rank makes progress again: forget earlier failures."""
        self._missed.clear()

    def _query(self, machine: _Machine) -> list[Event]:
        try:
            facts = _query(machine)
        except _NoAnswer as missing:
            before = self._missed.get(machine.number)
            since = before.since if before is not None and before.trouble == missing.trouble else time.monotonic()
            self._missed[machine.number] = _Missed(since, missing.trouble, str(missing))
            return []
        self._missed.pop(machine.number, None)
        return facts


def _query(machine: _Machine) -> list[Event]:
    """The facts that a machine reports now."""
    try:
        line = socket.create_connection((machine.address, machine.port), timeout=ANSWER_WITHIN)
    except ConnectionRefusedError:
        raise _NoAnswer("ended", "connection refused: its process has ended") from None
    except OSError as error:
        raise _NoAnswer("unreachable", error.strerror or "no answer") from None
    with line:
        try:
            line.sendall(machine.token.encode())
            data = b"".join(iter(lambda: line.recv(1 << 16), b""))
            return [event_from(fact) for fact in json.loads(data)]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise _NoAnswer("silent", "it accepts connections but does not answer") from None


def remote_facts(me: Rank, hang_after: float) -> Iterator[RankFact]:
    """What the first rank of this machine has learned lately about ranks on other machines, silent ones included."""
    try:
        answers = json.loads((me.folder / FILE).read_bytes())
    except FileNotFoundError:
        return
    now = time.monotonic()
    if now - answers["at"] > max(STALE, hang_after / 4):
        return
    for fact in map(event_from, answers["facts"]):
        if isinstance(fact, RankFact):
            yield fact
    for missed in answers["missed"]:
        seconds = now - missed["since"]
        if seconds < hang_after * (SILENT_FOR if missed["trouble"] == "silent" else LOST_FOR):
            continue
        since = time.strftime("%H:%M:%S", time.localtime(time.time() - seconds))
        for rank in missed["ranks"]:
            yield CollectivesCalled(0, None, rank, (), "died" if missed["trouble"] == "ended" else "running", "")
            if missed["trouble"] != "ended":
                why = f"{missed['machine']}: {missed['reason']}"
                yield RankStalled(0, None, rank, missed["trouble"], seconds, since, why)
