"""Under torchrun: join the process group that its variables describe, within a bounded time, and leave it again."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Final

import torch
import torch.distributed as dist

from trueloop.errors import Apart
from trueloop.parallel.answer import LOST, WAIT, seconds_to_wait
from trueloop.parallel.route import INTERFACE, route_to

if TYPE_CHECKING:
    from trueloop.torch_private.distributed import Store

__all__ = ["joined"]

CALM: Final = 30.0  # seconds at least for processes to connect to one another: hundreds of them take some
_meetings: Final = count()  # Those of this process; all processes meet equally often


@contextmanager
def joined() -> Iterator[None]:
    """A group that is there already stays as it is: whoever made it ends it. Raises Apart."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1 or not dist.is_available() or dist.is_initialized():
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    _find_the_way(world)
    _meet("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


def _find_the_way(world: int) -> None:
    """Between machines: over the interface that leads to the first of them, unless somebody has said which."""
    if INTERFACE in os.environ or world == int(os.environ.get("LOCAL_WORLD_SIZE", world)):
        return
    route = route_to(os.environ.get("MASTER_ADDR", ""))
    if route is not None and route.interface:
        os.environ[INTERFACE] = route.interface


def _meet(backend: str) -> None:
    wait = seconds_to_wait()
    where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    longer = f"{WAIT}={2 * wait} (or --wait {2 * wait}) waits longer."
    me = f"rank {os.environ.get('RANK')}"
    with _bounded(wait + max(wait, CALM), f"{me} cannot connect to the other processes, which meet at {where},"):
        store, rank, world = _all_here(f"{where} within {wait} s", time.monotonic() + wait, next(_meetings), longer)
        dist.init_process_group(backend, store=store, rank=rank, world_size=world)


def _all_here(place: str, until: float, number: int, longer: str) -> tuple[Store, int, int]:
    """The store in which all processes have said that they are there. Raises Apart. Each attempt and each meeting has a
    name: torchrun's store still holds the addresses of dead processes, and a fast process may find the store of the
    meeting before."""
    from torch.distributed.rendezvous import rendezvous

    from trueloop.torch_private.distributed import PrefixStore  # lazy: torch may be built without torch.distributed

    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    while True:
        try:
            found, rank, world = next(rendezvous("env://", timeout=_left(until)))
        except dist.DistError as error:
            unreached = "The first process cannot be reached at"
            what = "Not all processes have come to" if os.environ.get("RANK") == "0" else unreached
            reason = str(error).partition("\n")[0].rstrip(".")
            raise Apart(f"{what} {place} ({reason}). Nothing was trained: {longer}") from None
        store = PrefixStore(f"attempt-{attempt}/meeting-{number}", found)
        names = [f"here/{each}" for each in range(world)]
        try:
            store.set(names[rank], "")
            store.wait(names, _left(until))
        except dist.DistError as error:
            if isinstance(error, dist.DistNetworkError) and rank and time.monotonic() < until:
                continue  # that was the store of the meeting before
            raise Apart(f"{_missing(store, names)} not come to {place}. Nothing was trained: {longer}") from None
        return store, rank, world


def _left(until: float) -> timedelta:
    return timedelta(seconds=max(1.0, until - time.monotonic()))


def _missing(store: Store, names: list[str]) -> str:
    try:
        absent = [str(rank) for rank, name in enumerate(names) if not store.check([name])]
    except dist.DistError:
        return "The first process has left, and the others have"
    return f"Rank {absent[0]} has" if len(absent) == 1 else f"Ranks {', '.join(absent)} have"


@contextmanager
def _bounded(seconds: float, what: str) -> Iterator[None]:
    """Ends the process with a message after a time limit: connecting happens in C++ and cannot be interrupted."""

    def end() -> None:
        over = f" over {os.environ[INTERFACE]}" if INTERFACE in os.environ else ""
        cure = f"check that these machines can connect to each other on any port; {INTERFACE}=NAME selects the network"
        sys.stderr.write(f"trueloop: {what}{over} within {seconds:.0f} s. Nothing was trained: {cure}.\n")
        sys.stderr.flush()
        os._exit(LOST)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
