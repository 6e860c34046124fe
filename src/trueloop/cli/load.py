"""`trueloop load ARTEFACT|URL`: many callers at once. With an artefact it starts the server itself, with and without batching."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from trueloop.cli.options import Parser
from trueloop.cli.serve import KEY, add_limits, limits_of, opened
from trueloop.errors import MissingExtra, Misuse

if TYPE_CHECKING:
    from trueloop.serve.client import Address
    from trueloop.serve.drive import Outcome, Question

__all__ = ["load"]

USAGE: Final = "[options] ARTEFACT|URL"
ABOUT: Final = """Ask a server many questions at once, and compare every answer with the model's own:

  ARTEFACT   serves it here in a process of its own, with batching and without, and tells the ratio
  URL        a server that runs already; its answers are compared with what it answers to each question alone

--garbage mixes in requests that are cut off, far too large, slow, of another shape, not finite, or no HTTP at all. It ends with 1 if an
answer is wrong, a question that is right gets none, or anything is answered with 5xx."""
FAILED: Final = 1
PATIENCE: Final = 10.0
"""Seconds that a server of ours has to end."""


def load(arguments: list[str]) -> int:
    asked = _parsed(arguments)
    try:
        import trueloop.serve.server  # noqa: F401 - is everything there that the server will need?
    except ModuleNotFoundError as error:
        raise MissingExtra(f"Serving needs {error.name}, which is not installed. Nothing was run: pip install 'trueloop[serve]'") from None
    if asked.where.startswith(("http://", "https://")):
        return _driven(asked)
    return _served(asked)


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = Parser("load", USAGE, ABOUT)
    parser.add_argument("where", nargs="?", metavar="ARTEFACT|URL", help="an exported model, or http://HOST:PORT")
    parser.add_argument("--clients", type=_count, default=64, metavar="N", help="callers at the same time (64)")
    parser.add_argument("--requests", type=_count, default=10_000, metavar="N", help="in all (10000)")
    parser.add_argument("--garbage", type=_share, default=0.0, metavar="SHARE", help="of the requests, as in 1%% (0)")
    parser.add_argument("--without-batching", action="store_true", help="only so; else with an artefact both ways")
    parser.add_argument("--with-batching", action="store_true", help="only so")
    add_limits(parser)
    asked = parser.parse_all(arguments)
    if asked.where is None:
        raise Misuse("Load what? Nothing was asked: type `trueloop load runs/NAME/export/onnx`, or `trueloop load http://127.0.0.1:8000`.")
    limits_of(asked)
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
    from trueloop.serve.drive import asked_alone

    address = Address.of(asked.where, os.environ.get(KEY, ""))
    try:
        questions = asyncio.run(asked_alone(address))
    except OSError as error:
        raise Misuse(
            f"{asked.where} cannot be reached ({error.strerror or error}). Nothing was asked: `trueloop serve` starts a server."
        ) from None
    outcome = _drive(asked, address, questions)
    _show(asked.where, outcome)
    return FAILED if outcome.failures else 0


def _served(asked: argparse.Namespace) -> int:
    """Servers of our own, one after the other."""
    from trueloop.export.folder import read_artefact
    from trueloop.serve.drive import questions_of

    artefact = read_artefact(asked.where)
    questions = questions_of(artefact, opened(artefact))
    ways = [("with batching", asked.batch)] * (not asked.without_batching) + [("without batching", "1")] * (not asked.with_batching)
    if not ways:
        raise Misuse("--with-batching and --without-batching leave nothing. Nothing was asked: give one of them, or none for both.")
    print(f"{artefact.name} as {artefact.target}: {asked.requests:,} requests, {asked.clients} callers at once", flush=True)
    outcomes: list[Outcome] = []
    for name, batch in ways:
        with _server(asked, batch) as address:
            outcomes.append(_drive(asked, address, questions))
        _show(name, outcomes[-1])
    if len(outcomes) == 2:
        print(f"batching answers {outcomes[0].throughput / outcomes[1].throughput:.1f} times as many")
    return FAILED if any(outcome.failures for outcome in outcomes) else 0


@contextmanager
def _server(asked: argparse.Namespace, batch: str) -> Iterator[Address]:
    from trueloop.serve.client import Address
    from trueloop.serve.drive import waited_for

    options = [
        "--wait",
        asked.wait,
        "--queue",
        asked.queue,
        "--max-body",
        asked.max_body,
        "--timeout",
        asked.timeout,
        "--grace",
        asked.grace,
    ]
    words = [sys.executable, "-m", "trueloop", "serve", asked.where, "--port", "0", "--batch", batch, *options]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        if "http://" not in said:
            raise Misuse("The server has not started; it says why above. Nothing was asked.")
        address = Address.of(said.partition(" at ")[2].split()[0], os.environ.get(KEY, ""))
        if not asyncio.run(waited_for(address, lambda: process.poll() is None)):
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


def _drive(asked: argparse.Namespace, address: Address, questions: Sequence[Question]) -> Outcome:
    from trueloop.serve.drive import drive

    return asyncio.run(drive(address, questions, clients=asked.clients, requests=asked.requests, rubbish=asked.garbage))


def _show(name: str, outcome: Outcome) -> None:
    p50, p95, p99 = (outcome.percentile(share) * 1e3 for share in (0.50, 0.95, 0.99))
    before, after = (bytes / 1e6 for bytes in outcome.memory)
    print(f"{name}")
    print(f"  answers   {outcome.throughput:,.0f} a second; p50 {p50:.1f} ms, p95 {p95:.1f} ms, p99 {p99:.1f} ms")
    print(f"  statuses  {_counts(outcome)}; wrong answers {outcome.wrong}; failures {outcome.failures}")
    print(f"  memory    {before:.0f} MB before, {after:.0f} MB after")
    for kind, counts in sorted(outcome.rubbish.items()):
        told = ", ".join(f"{status or 'closed'} x {count}" for status, count in sorted(counts.items()))
        print(f"  rubbish   {kind}: {told}")
    sys.stdout.flush()


def _counts(outcome: Outcome) -> str:
    return ", ".join(f"{status or 'none'} x {count:,}" for status, count in sorted(outcome.statuses.items()))
