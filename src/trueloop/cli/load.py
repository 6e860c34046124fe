"""`trueloop load ARTIFACT|URL`: many callers at once. With an artifact it starts the server itself, with and without
batching."""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trueloop.cli.options import Parser
from trueloop.cli.quantities import duration
from trueloop.cli.serve import KEY, add_limits, limits_of, not_a_run
from trueloop.errors import MissingExtra, Misuse

if TYPE_CHECKING:
    from trueloop.serve.client import Address
    from trueloop.serve.load_test import Outcome, Question

__all__ = ["load"]

USAGE: Final = "[options] ARTIFACT|URL"
ABOUT: Final = """Ask a server many questions at once, and compare every answer with the model's own:

  ARTIFACT   serves it here in a process of its own, with batching and without, and tells the ratio
  URL        a server that runs already; its answers are compared with what it answers to each question alone

--garbage mixes in requests that are cut off, far too large, slow, of another shape, not finite, or no HTTP at all. It ends with 1 if an
answer is wrong, a question that is right gets none, anything is answered with 5xx, one answer in a hundred comes later than --p99 (if that
is not given: than the server's own limit, --latency), or batching answers fewer than --gain times as many."""
FAILED: Final = 1
WITH: Final = "with batching"
WITHOUT: Final = "without batching"
PATIENCE: Final = 10.0
"""Seconds that a server of ours has to end."""


def load(arguments: list[str]) -> int:
    asked = _parsed(arguments)
    try:
        import trueloop.serve.server  # noqa: F401 - is everything there that the server will need?
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"Serving needs {error.name}, which is not installed. Nothing was run: pip install 'trueloop[serve]'"
        ) from None
    if asked.where.startswith(("http://", "https://")):
        return _driven(asked)
    return _served(asked)


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = Parser("load", USAGE, ABOUT)
    parser.add_argument("where", nargs="?", metavar="ARTIFACT|URL", help="an exported model, or http://HOST:PORT")
    parser.add_argument("--clients", type=_count, default=64, metavar="N", help="callers at the same time (64)")
    parser.add_argument("--requests", type=_count, default=10_000, metavar="N", help="in all (10000)")
    parser.add_argument("--garbage", type=_share, default=0.0, metavar="SHARE", help="of the requests, as in 1%% (0)")
    parser.add_argument(
        "--p99", metavar="TIME", default="", help="99 of 100 answers must come within it (the server's --latency)"
    )
    parser.add_argument("--gain", metavar="X", type=float, default=0.0, help="that batching must bring, as in 3 (any)")
    parser.add_argument(
        "--rounds", type=_count, default=3, metavar="N", help="with and without batching in turns, for a fair ratio (3)"
    )
    parser.add_argument("--without-batching", action="store_true", help="only so; else with an artifact both ways")
    parser.add_argument("--with-batching", action="store_true", help="only so")
    add_limits(parser)
    asked = parser.parse_all(arguments)
    if asked.where is None:
        raise Misuse(
            "Load what? Nothing was asked: type `trueloop load runs/NAME/export/onnx`, or `trueloop load http://127.0.0.1:8000`."
        )
    limits_of(asked)
    _p99(asked, 0.0)
    return asked


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise Misuse(f"{text!r} is no number from 1 on. Nothing was asked.")
    return int(text)


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise Misuse(f"--garbage cannot be {text!r}. Nothing was asked: write a share from 0% to 100%, as in 1%.")
    return share


def _driven(asked: argparse.Namespace) -> int:
    """A server of somebody's."""
    from trueloop.serve.client import Address
    from trueloop.serve.load_test import fetch_questions

    address = Address.of(asked.where, os.environ.get(KEY, ""))
    try:
        questions, limit = asyncio.run(fetch_questions(address))
    except OSError as error:
        raise Misuse(
            f"{asked.where} cannot be reached ({error.strerror or error}). Nothing was asked: `trueloop serve` starts a server."
        ) from None
    outcome = _drive(asked, address, questions, asked.requests)
    kept = _show(asked.where, outcome, _p99(asked, limit))
    return 0 if kept and not outcome.failures else FAILED


def _served(asked: argparse.Namespace) -> int:
    """Servers of our own, asked in turns: what else the machine does meets both."""
    from trueloop.export.catalogue import runner_of
    from trueloop.export.folder import read_artifact
    from trueloop.serve.load_test import Outcome, questions_of

    artifact = read_artifact(not_a_run(Path(asked.where), "load", "asked"))
    questions = questions_of(artifact, runner_of(artifact))
    ways = [name for name, unwanted in ((WITH, asked.without_batching), (WITHOUT, asked.with_batching)) if not unwanted]
    if not ways:
        raise Misuse(
            "--with-batching and --without-batching leave nothing. Nothing was asked: give one of them, or none for both."
        )
    print(
        f"{artifact.name} as {artifact.target}: {asked.requests:,} requests, {asked.clients} callers at once",
        flush=True,
    )
    rounds = [_parts(asked.requests, asked.rounds), [asked.requests]][len(ways) == 1]
    outcomes, ratios = {way: Outcome() for way in ways}, []
    with ExitStack() as servers:
        addresses = {way: servers.enter_context(_server(asked, batching=way == WITH)) for way in ways}
        for requests in rounds:
            now = {way: _drive(asked, addresses[way], questions, requests) for way in ways}
            for way, outcome in now.items():
                outcomes[way].add(outcome)
            ratios += [now[WITH].throughput / now[WITHOUT].throughput] if len(ways) == 2 else []
    limits = {
        WITH: _p99(asked, limits_of(asked).latency),
        WITHOUT: math.inf if len(ways) == 2 else _p99(asked, math.inf),
    }
    kept = [_show(way, outcome, limits[way]) and not outcome.failures for way, outcome in outcomes.items()]
    gained = not ratios or _gained(asked, outcomes, ratios)
    return 0 if gained and all(kept) else FAILED


def _gained(asked: argparse.Namespace, outcomes: Mapping[str, Outcome], ratios: Sequence[float]) -> bool:
    gain = outcomes[WITH].throughput / outcomes[WITHOUT].throughput
    among = f" ({min(ratios):.1f} .. {max(ratios):.1f} in {len(ratios)} rounds)" if len(ratios) > 1 else ""
    bar = f"; {asked.gain:g} were asked for: {'reached' if gain >= asked.gain else 'missed'}" if asked.gain else ""
    print(f"batching answers {gain:.1f} times as many{among}{bar}")
    return gain >= float(asked.gain)


def _parts(requests: int, rounds: int) -> list[int]:
    """As even as can be."""
    return [part for at in range(rounds) if (part := requests // rounds + (at < requests % rounds))]


def _p99(asked: argparse.Namespace, limit: float) -> float:
    return duration(asked.p99, "--p99", "asked") if asked.p99 else limit


@contextmanager
def _server(asked: argparse.Namespace, *, batching: bool) -> Iterator[Address]:
    """Without batching there is no limit on latency either: it answers as many as it can, however late."""
    from trueloop.serve.client import Address
    from trueloop.serve.load_test import wait_ready

    told = {
        "--batch": asked.batch if batching else "1",
        "--wait": asked.wait,
        "--latency": asked.latency if batching else "",
        "--queue": asked.queue,
        "--max-body": asked.max_body,
        "--timeout": asked.timeout,
        "--grace": asked.grace,
    }
    options = [word for name, value in told.items() if value for word in (name, value)]
    words = [sys.executable, "-m", "trueloop", "serve", asked.where, "--port", "0", *options]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        if "http://" not in said:
            raise Misuse("The server has not started; it says why above. Nothing was asked.")
        address = Address.of(said.partition(" at ")[2].split()[0], os.environ.get(KEY, ""))
        if not asyncio.run(wait_ready(address, lambda: process.poll() is None)):
            raise Misuse("The server has ended before it was ready; it says why above. Nothing was asked.")
        yield address
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            print("trueloop: the server did not end in time, and was killed.", file=sys.stderr)
        process.communicate()


def _drive(asked: argparse.Namespace, address: Address, questions: Sequence[Question], requests: int) -> Outcome:
    from trueloop.serve.load_test import run_load

    return asyncio.run(run_load(address, questions, clients=asked.clients, requests=requests, malformed=asked.garbage))


def _show(name: str, outcome: Outcome, limit: float) -> bool:
    """Is the limit on the latency of 99 in 100 answers kept? One that nobody was answered within is not."""
    p50, p95, p99 = (outcome.percentile(share) for share in (0.50, 0.95, 0.99))
    kept = limit == math.inf or p99 <= limit
    told = "" if limit == math.inf else f"; the limit of {limit * 1e3:g} ms is {'kept' if kept else 'missed'}"
    before, after = (bytes / 1e6 for bytes in outcome.memory)
    print(f"{name}")
    print(
        f"  answers   {outcome.throughput:,.0f} a second; p50 {p50 * 1e3:.1f} ms, p95 {p95 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms{told}"
    )
    print(f"  statuses  {_counts(outcome)}; wrong answers {outcome.wrong}; failures {outcome.failures}")
    print(f"  memory    {before:.0f} MB before, {after:.0f} MB after")
    for kind, counts in sorted(outcome.malformed.items()):
        told = ", ".join(f"{status or 'closed'} x {count}" for status, count in sorted(counts.items()))
        print(f"  malformed {kind}: {told}")
    sys.stdout.flush()
    return kept


def _counts(outcome: Outcome) -> str:
    return ", ".join(f"{status or 'none'} x {count:,}" for status, count in sorted(outcome.statuses.items()))
