"""`trueloop load ARTIFACT|URL`: many clients at once. For an artifact it starts the server itself, with and without
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
from typing import TYPE_CHECKING, Final, NamedTuple

from trueloop.cli.deliver import Delivery
from trueloop.cli.options import Parser, duration, number, share, whole_number
from trueloop.cli.serve import KEY, add_limits, limits_of, not_a_run
from trueloop.errors import MissingExtra, Misuse
from trueloop.results.check import ExitCode
from trueloop.results.document import Document, Facts, Part, Text
from trueloop.usercode.child_python import child_python

if TYPE_CHECKING:
    from trueloop.serve.client import Address
    from trueloop.serve.load_test import Outcome, Question

__all__ = ["load", "parser"]

ABOUT: Final = """Load-test a server, and compare every answer with the model's own:

  ARTIFACT   serves it here, in its own process, with and without batching
  URL        a running server; compared with its answers to single requests

--garbage adds malformed requests: cut off, too large, slow, of a wrong shape, NaN or Inf, not HTTP at all. The exit
code is 1 if an answer is wrong or missing, if the server answers 5xx, if the 99th percentile is above --p99
(default: the server's own --latency), or if batching gains less than --gain."""
WITH: Final = "with batching"
WITHOUT: Final = "without batching"
PATIENCE: Final = 10.0  # Seconds that our own server has to end


class Gain(NamedTuple):
    """Throughput with batching over throughput without; None where only one of them was measured."""

    ratio: float | None = None
    among: str = ""  # the smallest and the largest of the rounds


def parser() -> Parser:
    made = Parser("load", "[options] ARTIFACT|URL", ABOUT)
    add = made.add_argument
    add("where", nargs="?", metavar="ARTIFACT|URL", help="an exported model, or http://HOST:PORT")
    add("--clients", type=whole_number(), default=64, metavar="N", help="clients at the same time (64)")
    add("--requests", type=whole_number(), default=10_000, metavar="N", help="requests in all (10000)")
    add("--garbage", type=share(zero=True), default=0.0, metavar="SHARE", help="malformed requests: 1%% (0)")
    add("--p99", metavar="TIME", type=duration, help="limit of the 99th percentile (the server's --latency)")
    add("--gain", metavar="X", type=number("a number, as in 3"), default=0.0, help="least gain of batching: 3")
    add("--rounds", type=whole_number(), default=3, metavar="N", help="rounds with and without batching (3)")
    add("--without-batching", action="store_true", help="only without batching")
    add("--with-batching", action="store_true", help="only with batching")
    add_limits(made)
    made.add_report_options()
    made.add_trust()
    return made


def load(arguments: list[str]) -> int:
    options = parser().parse_all(arguments)
    if options.where is None:
        typed = "`trueloop load runs/NAME/export/onnx` or `trueloop load http://127.0.0.1:8000`"
        raise Misuse(f"Load what? Nothing was run: type {typed}.")
    limits_of(options)
    options.delivery = Delivery(options)
    try:
        import trueloop.serve.server  # noqa: F401 - is every package here that the server needs?
    except ModuleNotFoundError as error:
        raise MissingExtra(f"Serving needs the package {error.name}: pip install 'trueloop[serve]'") from None
    if options.where.startswith(("http://", "https://")):
        return _drive_url(options)
    return _drive_artifact(options)


def _drive_url(options: argparse.Namespace) -> int:
    from trueloop.serve.client import Address
    from trueloop.serve.load_test import fetch_questions

    address = Address.of(options.where, os.environ.get(KEY, ""))
    try:
        questions, limit = asyncio.run(fetch_questions(address))
    except OSError as error:
        why = error.strerror or error
        raise Misuse(f"{options.where} cannot be reached ({why}). Nothing was run: type `trueloop serve`.") from None
    outcome = _drive(options, address, questions, options.requests)
    return _report(options, options.where, {"server": (outcome, limit if options.p99 is None else options.p99)}, Gain())


def _drive_artifact(options: argparse.Namespace) -> int:
    """Two servers of our own, in turns: other load on the machine affects both."""
    from trueloop.export.catalogue import runner_of
    from trueloop.export.folder import read_artifact
    from trueloop.serve.load_test import Outcome, questions_of

    artifact = read_artifact(not_a_run(Path(options.where), "load"))
    runner = runner_of(artifact)
    questions = questions_of(artifact, runner)
    runner.close()
    unwanted = {WITH: options.without_batching, WITHOUT: options.with_batching}
    ways = [way for way in (WITH, WITHOUT) if not unwanted[way]]
    if not ways:
        raise Misuse("--with-batching and --without-batching exclude each other. Nothing was run: drop both for both.")
    rounds = _parts(options.requests, options.rounds) if len(ways) == 2 else [options.requests]
    outcomes, ratios = {way: Outcome() for way in ways}, []
    with ExitStack() as servers:
        addresses = {way: servers.enter_context(_server(options, batching=way == WITH)) for way in ways}
        for requests in rounds:
            now = {way: _drive(options, addresses[way], questions, requests) for way in ways}
            for way, outcome in now.items():
                outcomes[way].add(outcome)
            ratios += [now[WITH].throughput / now[WITHOUT].throughput] if len(ways) == 2 else []
    limits = {WITH: limits_of(options).latency, WITHOUT: math.inf}
    if options.p99 is not None:
        limits |= {way: options.p99 for way in ways if way == WITH or len(ways) == 1}
    gain = Gain()
    if ratios:
        among = f" ({min(ratios):.1f} .. {max(ratios):.1f} in {len(ratios)} rounds)" if len(ratios) > 1 else ""
        gain = Gain(outcomes[WITH].throughput / outcomes[WITHOUT].throughput, among)
    limited = {way: (outcome, limits[way]) for way, outcome in outcomes.items()}
    return _report(options, f"{artifact.name} as {artifact.target}", limited, gain)


def _parts(requests: int, rounds: int) -> list[int]:
    """As even as possible."""
    return [part for at in range(rounds) if (part := requests // rounds + (at < requests % rounds))]


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.3f}us"


@contextmanager
def _server(options: argparse.Namespace, *, batching: bool) -> Iterator[Address]:
    """Without batching there is no limit on latency either: it answers as many as it can, however late."""
    from trueloop.serve.client import Address
    from trueloop.serve.load_test import wait_ready

    values = {
        "--batch": f"{options.batch if batching else 1}",
        "--wait": _microseconds(options.wait),
        "--latency": _microseconds(options.latency) if batching and options.latency else "",
        "--queue": f"{options.queue}",
        "--max-body": f"{options.max_body:.0f}B",
        "--timeout": _microseconds(options.timeout),
        "--grace": _microseconds(options.grace),
        "--connections": f"{options.connections}",
        "--per-client": f"{options.per_client}",
    }
    words = [word for name, value in values.items() if value for word in (name, value)]
    command = child_python("-m", "trueloop", "serve", options.where, "--port", "0", *words)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        if "http://" not in first:
            raise Misuse("The server did not start; its error is above. No request was sent.")
        address = Address.of(first.partition(" at ")[2].split()[0], os.environ.get(KEY, ""))
        if not asyncio.run(wait_ready(address, lambda: process.poll() is None)):
            raise Misuse("The server ended before it was ready; its error is above. No request was sent.")
        yield address
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            print("trueloop: the server did not end in time and was killed.", file=sys.stderr)
        process.communicate()


def _drive(options: argparse.Namespace, address: Address, questions: Sequence[Question], requests: int) -> Outcome:
    from trueloop.serve.load_test import run_load

    clients, malformed = options.clients, options.garbage
    return asyncio.run(run_load(address, questions, clients=clients, requests=requests, malformed=malformed))


def _report(options: argparse.Namespace, name: str, outcomes: Mapping[str, tuple[Outcome, float]], gain: Gain) -> int:
    """Deliver it. The exit code: 1 where an answer or a limit was missed."""
    kept = {way: limit == math.inf or outcome.percentile(0.99) <= limit for way, (outcome, limit) in outcomes.items()}
    gained = gain.ratio is None or gain.ratio >= options.gain
    parts: list[Part] = [Facts(way, _facts(*each, kept[way])) for way, each in outcomes.items()]
    if gain.ratio is not None:
        limit = f"; --gain {options.gain:g}: {'reached' if gained else 'missed'}" if options.gain else ""
        parts.append(Text(f"batching answers {gain.ratio:.1f} times as many requests{gain.among}{limit}"))
    title = f"{name}: {options.requests:,} requests, {options.clients} clients"
    servers = [
        {"name": way, **outcome.plain(), "p99_limit": limit if limit < math.inf else None, "p99_kept": kept[way]}
        for way, (outcome, limit) in outcomes.items()
    ]
    data = {"requests": options.requests, "clients": options.clients, "servers": servers, "batching_gain": gain.ratio}
    good = gained and all(kept[way] and not outcome.failures for way, (outcome, _) in outcomes.items())
    options.delivery.deliver(Document(title, tuple(parts), name=f"trueloop load: {name}", data=data), healthy=good)
    return ExitCode.CLEAN if good else ExitCode.FINDINGS


def _facts(outcome: Outcome, limit: float, kept: bool) -> dict[str, str]:
    times = ", ".join(f"p{share} {outcome.percentile(share / 100) * 1e3:.1f} ms" for share in (50, 95, 99))
    held = "" if limit == math.inf else f"; limit {limit * 1e3:g} ms: {'kept' if kept else 'missed'}"
    statuses = ", ".join(f"{status or 'none'} x {count:,}" for status, count in sorted(outcome.statuses.items()))
    before, after = (bytes / 1e6 for bytes in outcome.memory)
    malformed = {
        f"malformed: {kind}": ", ".join(f"{status or 'closed'} x {count}" for status, count in sorted(counts.items()))
        for kind, counts in sorted(outcome.malformed.items())
    }
    return {
        "answers": f"{outcome.throughput:,.0f} per second; {times}{held}",
        "statuses": f"{statuses}; wrong answers {outcome.wrong}; failures {outcome.failures}",
        "memory": f"{before:.0f} MB before, {after:.0f} MB after",
        **malformed,
    }
