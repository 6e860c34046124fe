"""Runs a plan on torchelastic, the engine of torchrun, which starts, watches, restarts and ends the processes."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from torch.distributed import DistError
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.elastic.rendezvous import (
    RendezvousError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    rendezvous_handler_registry,
)
from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous, create_rdzv_handler
from torch.distributed.launcher.api import LaunchConfig, launch_agent

from trueloop.errors import Misuse
from trueloop.parallel.answer import ANSWERS, LAUNCH, LOST, SIGNALLED, WAIT, answers, launch_name
from trueloop.parallel.launch import Rendezvous
from trueloop.parallel.route import INTERFACE, route_to
from trueloop.results.check import ExitCode

if TYPE_CHECKING:
    from trueloop.parallel.launch import Plan

__all__ = ["execute"]

BACKEND: Final = "trueloop"  # What our way to meet is called among torchelastic's
SAVING: Final = (
    120  # seconds to save and leave after a signal, before a kill; torch's 30 are few for a large checkpoint
)
QUOTED: Final = 40  # Lines that are shown of what a failed process said


def execute(plan: Plan, say: Callable[[str], None]) -> int:
    """To its end; the exit code of the run. `say`: one sentence, or a page, for a person."""
    folder = Path(tempfile.mkdtemp(prefix="trueloop-launch-"))
    (folder / "answers").mkdir()
    keep = False
    try:
        with _surroundings(plan, folder / "answers"), _quiet():
            code, words, keep = _run(plan, folder)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if words:
        say(words)
    return code


def _run(plan: Plan, folder: Path) -> tuple[int, str, bool]:
    """The exit code, a message, and whether the folder holds logs worth keeping."""
    try:
        launch_agent(_config(plan, folder), sys.executable, list(plan.command))
    except ChildFailedError as error:
        return _failed(plan, error.failures, folder)
    except SignalException as error:
        return *_signalled(plan, error.sigval, answers(folder / "answers")), False
    except (DistError, RendezvousError) as error:
        return ExitCode.MISUSE, _unmet(plan, error, again=any(folder.glob("*/attempt_*"))), False
    code = max(answers(folder / "answers").values(), default=0)
    restarted = len(list(folder.glob("*/attempt_*"))) - 1
    if restarted < 1:
        return code, "", False
    hidden = plan.nproc > 1 and not plan.every_rank
    where = f"; the earlier output of the other processes is in {folder}" if hidden else ""
    return code, f"it took {restarted} restart{'s' * (restarted > 1)}{where}.", hidden


def _config(plan: Plan, folder: Path) -> LaunchConfig:
    hidden = {} if plan.every_rank else dict.fromkeys(range(1, plan.nproc), Std.ALL)
    rendezvous_handler_registry.register(BACKEND, _meeting_place)
    place = plan.rendezvous or Rendezvous("127.0.0.1", _free_port())
    return LaunchConfig(
        min_nodes=plan.nnodes,
        max_nodes=plan.nnodes,
        nproc_per_node=plan.nproc,
        run_id="trueloop",
        max_restarts=plan.restarts,
        logs_specs=DefaultLogsSpecs(log_dir=str(folder), redirects=hidden),
        rdzv_backend=BACKEND,
        rdzv_endpoint=str(place),
        rdzv_configs={"rank": plan.node_rank, "timeout": plan.wait},
    )


@final
class _MeetingPlace(StaticTCPRendezvous):
    """Static: ranks follow --node-rank, and every node counts the same restarts. Nodes reconnect before each attempt:
    after a cut cable an old TCP connection would block for a quarter of an hour without a message."""

    def get_backend(self) -> str:
        return BACKEND

    def next_rendezvous(self) -> RendezvousInfo:
        if self.rank != 0:
            self._store = None
        return super().next_rendezvous()


def _meeting_place(asked: RendezvousParameters) -> RendezvousHandler:
    plain = create_rdzv_handler(asked)
    assert isinstance(plain, StaticTCPRendezvous)
    seconds = int(plain.timeout.total_seconds())
    return _MeetingPlace(plain.master_addr, plain.master_port, plain.rank, plain.world_size, plain.run_id, seconds)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


# -- how it ends --


def _failed(plan: Plan, failures: dict[int, ProcessFailure], folder: Path) -> tuple[int, str, bool]:
    rank, failure = min(failures.items(), key=lambda item: _innocence(*item))
    code, ended = failure.exitcode, f"failed with exit code {failure.exitcode}"
    if code < 0:
        code, ended = SIGNALLED - code, f"was killed by {_signal_name(-code)}"
    others = {1: "", 2: "; the other here was ended"}.get(plan.nproc, "; the others here were ended")
    written = _stderr_of(failure.local_rank, folder)
    if written is None:
        return code, f"rank {rank} {ended} (what it said stands above){others}.", False
    lines = written.read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines:
        return code, f"rank {rank} {ended}, and said nothing{others}.", False
    long = len(lines) > QUOTED
    more = f" (the last {QUOTED} lines; all: {written})" if long else ""
    return code, "\n    ".join([f"rank {rank} {ended}{others}. It said{more}:", *lines[-QUOTED:]]), long


def _stderr_of(local_rank: int, folder: Path) -> Path | None:
    """What a process said in the last attempt; None: it was shown as it came."""
    attempts = sorted(folder.glob("*/attempt_*"), key=lambda path: int(path.name.rpartition("_")[2]))
    file = attempts[-1] / str(local_rank) / "stderr.log" if attempts else None
    return file if file is not None and file.is_file() else None


def _innocence(rank: int, failure: ProcessFailure) -> tuple[bool, bool, float, int]:
    """Sort key for the cause: ranks that lost or were terminated by others come last; then by time."""
    return failure.exitcode == LOST, failure.exitcode == -signal.SIGTERM, failure.timestamp, rank


def _signalled(plan: Plan, number: signal.Signals, said: dict[int, int]) -> tuple[int, str]:
    """The exit code that the processes agreed on; processes that were starting or too slow did not report one."""
    silent = plan.nproc - len(said) if plan.command[:2] == ("-m", "trueloop") else 0
    if not silent:
        return max(said.values(), default=SIGNALLED + number), ""
    words = f"{silent} of {plan.nproc} processes were still starting, or were killed after {SAVING} s."
    valid = "Saved checkpoints are valid: `trueloop runs` lists the runs."
    return SIGNALLED + number, f"stopped by {number.name}; {words} {valid}"


def _unmet(plan: Plan, error: Exception, *, again: bool) -> str:
    said = str(error).partition("\n")[0]
    others = f"--node-rank 1{f' to {plan.nnodes - 1}' * (plan.nnodes > 2)}" if plan.node_rank == 0 else "--node-rank 0"
    return (
        f"the {plan.nnodes} nodes did not connect at {plan.rendezvous} within {plan.wait} s ({said}). Nothing was "
        f"trained{' since the last checkpoint' * again}: check that {others} runs with the same --nnodes and "
        "--rendezvous, and that this port is reachable; --wait SECONDS waits longer."
    )


def _signal_name(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    return f"{name} (memory may have run out)" if number == signal.SIGKILL else name


# -- what it runs in --


@contextmanager
def _surroundings(plan: Plan, place: Path) -> Iterator[None]:
    """Processes inherit the launcher's environment. A launch name that a cluster's file gave stays."""
    if os.environ.get("RANK"):
        cure = "launch from outside, or leave --nproc out"
        raise Misuse(f"This process already belongs to a launch (RANK is set). Nothing was run: {cure}.")
    before = dict(os.environ)
    launch = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(SAVING), LAUNCH: launch_name() or uuid.uuid4().hex}
    os.environ.update({**launch, **plan.environment, ANSWERS: str(place), WAIT: str(plan.wait)})
    meets = plan.rendezvous if plan.nnodes > 1 and INTERFACE not in os.environ else None
    route = route_to(meets.host) if meets else None
    if route is not None and route.interface:  # a script of the user's joins by itself
        os.environ[INTERFACE] = route.interface
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
    handlers = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences torchelastic, which logs a page per failure; trueloop reports the cause once."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
