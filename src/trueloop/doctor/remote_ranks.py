"""The ranks on other machines, asked where they stand when those of this one stand still.

The first rank of each machine listens for that question, and answers with the facts of all ranks beside it. Where it
listens, it says once, in the store in which the ranks have met; nothing is sent while a run moves. An answer, or how it
stays away, tells what has happened there: nobody can be reached (a cable, or the machine), nobody listens any more (the
process has ended), somebody listens and says nothing (it is stopped). Only who has answered once is asked again: behind
a wall that lets nothing through, silence means nothing.
"""

from __future__ import annotations

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

__all__ = ["LONGEST_QUESTION", "RemoteRanks", "remote_facts"]

FILE: Final = "far"
"""In the folder where the ranks of this machine meet: what the others have answered."""
ANSWER_WITHIN: Final = 3.0
"""Seconds for a connection, and for an answer: what is asked is at hand, and a packet that was lost is sent again after
one."""
LONGEST_QUESTION: Final = 2 * ANSWER_WITHIN
"""Seconds until all have answered, or will not."""
GREETING: Final = 60.0
"""Seconds in which the machines tell one another where they listen."""
STALE: Final = 5.0
"""Seconds after which an answer says nothing of now, at the least."""
AT_ONCE: Final = 16
LOST_FOR: Final = 0.4
"""Share of --hang-after in which a machine must not have been reached: they are asked from one half of it on."""
SILENT_FOR: Final = 0.9
"""Share of --hang-after for one that can be reached and says nothing: a library may keep Python busy for long."""

Trouble = Literal["unreachable", "silent", "ended"]


@final
@dataclass(frozen=True, slots=True)
class _Machine:
    """Where its first rank listens."""

    number: int
    ranks: tuple[int, ...]
    address: str
    port: int
    word: str
    """Who does not know it gets no answer."""

    def __str__(self) -> str:
        return f"node {self.number} ({self.address})"


@final
@dataclass(frozen=True, slots=True)
class _Missed:
    """An answer that has not come."""

    since: float
    trouble: Trouble
    reason: str


class _NoAnswer(Exception):
    """Why."""

    def __init__(self, trouble: Trouble, reason: str) -> None:
        super().__init__(reason)
        self.trouble: Trouble = trouble


@final
class RemoteRanks(threading.Thread):
    """On the first rank of a machine: answers, and asks."""

    def __init__(
        self, me: Rank, facts: Callable[[], Iterable[Event]], place: socket.socket, environment: Mapping[str, str]
    ) -> None:
        super().__init__(name="trueloop answers other machines", daemon=True)
        self._me, self._facts, self._place, self._environment = me, facts, place, environment
        own = tuple(range(me.first, me.first + me.peers))
        address, port = place.getsockname()[:2]
        self._here = _Machine(int(environment["GROUP_RANK"]), own, address, port, secrets.token_hex(16))
        self._others: dict[int, _Machine] = {}
        self._missed: dict[int, _Missed] = {}
        self._over = threading.Event()

    @classmethod
    def of(
        cls, me: Rank, facts: Callable[[], Iterable[Event]], environment: Mapping[str, str] = os.environ
    ) -> Self | None:
        """None: there is no other machine, or this rank is not the one that speaks to them."""
        several = int(environment.get("GROUP_WORLD_SIZE", "1")) > 1 and "GROUP_RANK" in environment
        if not several or me.number != me.first or "MASTER_PORT" not in environment:
            return None
        route = route_to(environment.get("MASTER_ADDR", ""))
        address = (
            "127.0.0.1" if route is None else route.address
        )  # then the machines are this one; who is elsewhere gets no answer
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return cls(me, facts, socket.create_server((address, 0), family=family, backlog=1024), environment)

    # -- answering --

    def run(self) -> None:
        threading.Thread(target=self._greet, name="trueloop greets other machines", daemon=True).start()
        while not self._over.is_set():
            try:
                caller, _ = self._place.accept()
            except OSError:  # it was closed: the run is over
                return
            with caller:
                self._answer(caller)

    def close(self) -> None:
        self._over.set()
        with contextlib.suppress(OSError):  # nobody waits
            self._place.shutdown(socket.SHUT_RDWR)  # wakes who waits in accept
        self._place.close()

    def _answer(self, caller: socket.socket) -> None:
        """A stranger, or one who hangs up, is no reason to stop."""
        caller.settimeout(ANSWER_WITHIN)
        try:
            if caller.recv(64).decode("ascii", "replace") == self._here.word:
                caller.sendall(json.dumps([event_to(fact) for fact in self._facts()]).encode())
        except OSError:
            return

    def _greet(self) -> None:
        """Say where this machine listens, and find those that answer."""
        said = self._environment
        run, attempt, vigil = (
            said.get("TORCHELASTIC_RUN_ID", ""),
            said.get("TORCHELASTIC_RESTART_COUNT", "0"),
            self._me.folder.name,
        )
        name = f"trueloop/far/{run}/{attempt}/{vigil.rpartition('-')[2]}"
        until = time.monotonic() + GREETING
        from trueloop.torch_private.distributed import TCPStore  # lazy: torch may be built without torch.distributed

        try:
            within = timedelta(seconds=ANSWER_WITHIN)
            store = TCPStore(
                said["MASTER_ADDR"], int(said["MASTER_PORT"]), is_master=False, timeout=within, wait_for_workers=False
            )
            store.set(f"{name}/{self._here.number}", json.dumps(asdict(self._here)))
            wanted = [number for number in range(int(said["GROUP_WORLD_SIZE"])) if number != self._here.number]
            while wanted and time.monotonic() < until and not self._over.wait(0.2):
                for number in [each for each in wanted if store.check([f"{name}/{each}"])]:
                    self._meet(json.loads(store.get(f"{name}/{number}")))
                    wanted.remove(number)
        except DistError:
            return  # without a store nobody is known, and of the others the run says that nothing is known

    def _meet(self, told: dict[str, object]) -> None:
        machine = _Machine(**{**told, "ranks": tuple(told["ranks"])})  # type: ignore[arg-type]
        try:
            _asked(machine)
        except _NoAnswer:
            return
        self._others[machine.number] = machine

    # -- asking --

    def ask(self) -> None:
        """Every machine; what they say, or that they say nothing, is left for all ranks of this one."""
        machines = list(self._others.values())
        if not machines:
            return
        with ThreadPoolExecutor(min(AT_ONCE, len(machines))) as several:
            answers = dict(zip(machines, several.map(self._asked, machines), strict=True))
        facts = [event_to(fact) for heard in answers.values() for fact in heard]
        missed = [
            {**asdict(self._missed[m.number]), "machine": str(m), "ranks": m.ranks}
            for m in machines
            if m.number in self._missed
        ]
        self._me.put(FILE, json.dumps({"at": time.monotonic(), "facts": facts, "missed": missed}).encode())

    def forget(self) -> None:
        """This rank moves again: who could not be reached was not missed."""
        self._missed.clear()

    def _asked(self, machine: _Machine) -> list[Event]:
        try:
            heard = _asked(machine)
        except _NoAnswer as missing:
            before = self._missed.get(machine.number)
            since = before.since if before is not None and before.trouble == missing.trouble else time.monotonic()
            self._missed[machine.number] = _Missed(since, missing.trouble, str(missing))
            return []
        self._missed.pop(machine.number, None)
        return heard


def _asked(machine: _Machine) -> list[Event]:
    """What it says now."""
    try:
        line = socket.create_connection((machine.address, machine.port), timeout=ANSWER_WITHIN)
    except ConnectionRefusedError:
        raise _NoAnswer("ended", "nobody listens there any more") from None
    except OSError as error:
        raise _NoAnswer("unreachable", error.strerror or "no answer") from None
    with line:
        try:
            line.sendall(machine.word.encode())
            data = b"".join(iter(lambda: line.recv(1 << 16), b""))
            return [event_from(fact) for fact in json.loads(data)]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise _NoAnswer("silent", "it can be reached, and says nothing") from None


def remote_facts(me: Rank, hang_after: float) -> Iterator[RankFact]:
    """What the first rank of this machine has heard lately of the ranks on others, and of those of whom nothing is
    heard."""
    try:
        told = json.loads((me.folder / FILE).read_bytes())
    except FileNotFoundError:
        return
    now = time.monotonic()
    if now - told["at"] > max(STALE, hang_after / 4):
        return
    for fact in map(event_from, told["facts"]):
        if isinstance(fact, RankFact):
            yield fact
    for missed in told["missed"]:
        seconds = now - missed["since"]
        if seconds < hang_after * (SILENT_FOR if missed["trouble"] == "silent" else LOST_FOR):
            continue
        since = time.strftime("%H:%M:%S", time.localtime(time.time() - seconds))
        for rank in missed["ranks"]:
            yield CollectivesCalled(0, None, rank, (), "died" if missed["trouble"] == "ended" else "running", "")
            if missed["trouble"] != "ended":
                yield RankStalled(
                    0, None, rank, missed["trouble"], seconds, since, f"{missed['machine']}: {missed['reason']}"
                )
